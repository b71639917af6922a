// Links of the transport over NCCL, on its stand-in: how they are tried, how they end, and what is
// kept for whom.

#include <algorithm>
#include <atomic>
#include <thread>

#include "executor/transports/nccl/transport.hpp"
#include "executor/transports/nccl/version.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/executor/nccl_stand_in.hpp"
#include "tests/executor/ranks_on_threads.hpp"
#include "tests/executor/wrapped_calls.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using nccl::Result;

namespace {

using Transports = std::vector<std::unique_ptr<Transport>>;

Tensor numbers(Backend& backend) {
  return backend.allocate({10}, Precision::float32);
}

/// Two links between the same ranks.
const Wiring two_links{
    .ranks = 2, .channels = {{.from = 0, .to = 1}, {.from = 1, .to = 0}}, .groups = {}};

/// What rank 0 sends, as its calls see it.
struct Sent {
  std::atomic<bool> is_asked_for = false;
  std::weak_ptr<void> memory;
};

/// Cannot send once it is watched.
class CannotSend final : public WrappedCalls {
 public:
  CannotSend(std::unique_ptr<nccl::Calls> inner, Sent& sent)
      : WrappedCalls(std::move(inner)), sent_(sent) {}
  Result send(const void* data, std::size_t bytes, int peer, nccl::Communicator communicator,
              nccl::Stream stream) override {
    if (sent_.is_asked_for) return Result::internal_error;
    return WrappedCalls::send(data, bytes, peer, communicator, stream);
  }

 private:
  Sent& sent_;
};

/// Cannot abort: whatever it has begun goes on.
class CannotAbort final : public WrappedCalls {
 public:
  using WrappedCalls::WrappedCalls;
  Result abort(nccl::Communicator) override { return Result::unhandled_cuda_error; }
};

/// Rank 0 waits for a message and sends one, both in vain; then rank 1 gives up.
void give_up(NcclWorld& world, Transports& transports, Sent& sent) {
  const auto has_sent = [&] {
    return std::ranges::any_of(world.calls(), [](const NcclCall& call) {
      return call.rank == 0 && call.words == "send 40 bytes to rank 1";
    });
  };
  const auto failures = run_on_all(transports, [&](Transport& transport, Backend& backend) {
    if (transport.rank() == 0) {
      Tensor tensor = numbers(backend);
      sent.memory = tensor.storage;
      transport.post(1, backend, numbers(backend));
      transport.send(0, backend, std::move(tensor), now());
      transport.receive(1, backend);
    } else {
      while (!has_sent()) std::this_thread::yield();
      throw Error(ErrorKind::execution, "rank 1 gives up");
    }
  });
  CHECK(failures == std::vector<std::string>(2, "rank 1 gives up"));
}

template <class Kind, class... Arguments>
auto on_rank_0(Arguments&... arguments) {
  return [&](std::unique_ptr<nccl::Calls> calls, int rank) -> std::unique_ptr<nccl::Calls> {
    if (rank != 0) return calls;
    return std::make_unique<Kind>(std::move(calls), arguments...);
  };
}

/// Of two ranks that are connected by one communicator each.
struct Connected {
  explicit Connected(NcclWorld& world) {
    nccl::UniqueId id{};
    calls[0] = world.calls_of(0);
    calls[1] = world.calls_of(1);
    calls[0]->get_unique_id(id);
    for (int place : {0, 1}) calls[place]->init_rank(communicators[place], 2, id, place);
    for (int place : {0, 1}) {
      Result state = Result::in_progress;
      while (state == Result::in_progress) calls[place]->async_error(communicators[place], state);
      streams[place] = calls[place]->make_stream();
    }
  }
  Result send(char& byte) { return calls[0]->send(&byte, 1, 1, communicators[0], streams[0]); }

  std::unique_ptr<nccl::Calls> calls[2];
  nccl::Communicator communicators[2] = {};
  nccl::Stream streams[2] = {};
};

}  // namespace

// --- Trying them out ---------------------------------------------------------------------------

TEST_CASE("groups that add up by NCCL's own sums are tried with one of each kind, too") {
  const bool in_order = GENERATE(true, false);
  NcclWorld world;
  auto transports = make_stand_in_transports(
      world, {.ranks = 3, .channels = {}, .groups = {{0, 2}, {1}}, .sums_in_order = in_order});
  std::vector<std::string> sums;
  for (const NcclCall& call : world.calls()) {
    if (call.rank == 0 && call.words.find("the sum of") != std::string::npos) {
      sums.push_back(call.words);
    }
    CHECK(call.rank != 1);
  }
  CHECK(sums == (in_order ? std::vector<std::string>{}
                          : std::vector<std::string>{"share the sum of 8 bytes",
                                                     "scatter the sum of 8 bytes"}));
  transports.clear();
  CHECK(world.broken_rules() == std::vector<std::string>{});
}

// --- Groups, and how links end ----------------------------------------------------------------

TEST_CASE("a call that fails inside a group ends the group before the links end") {
  Sent sent;
  NcclWorld world;
  auto transports = make_stand_in_transports(world, two_links, on_rank_0<CannotSend>(sent));
  const auto failures = run_on_all(transports, [&](Transport& transport, Backend& backend) {
    if (transport.rank() == 0) {
      sent.is_asked_for = true;
      transport.send(0, backend, numbers(backend), now());
    } else {
      transport.receive(0, backend);
    }
    transport.barrier();
  });
  CHECK_THAT(failures[0], ContainsSubstring("NCCL cannot send on the link from rank 0 to rank 1"));
  CHECK(failures[1] == failures[0]);
  transports.clear();
  CHECK(world.broken_rules() == std::vector<std::string>{});
}

TEST_CASE("links end together, for one's messages may be behind another's") {
  NcclWorld world({.one_queue = true});
  auto transports = make_stand_in_transports(world, two_links);
  Sent sent;
  give_up(world, transports, sent);
  transports.clear();
  CHECK(world.broken_rules() == std::vector<std::string>{});
}

TEST_CASE("what NCCL may still use is never given back") {
  const bool ends = GENERATE(true, false);
  Sent sent;
  NcclWorld world;
  auto transports = ends ? make_stand_in_transports(world, two_links)
                         : make_stand_in_transports(world, two_links, on_rank_0<CannotAbort>());
  give_up(world, transports, sent);
  transports.clear();
  CHECK(sent.memory.expired() == ends);
}

TEST_CASE("a run says what NCCL found out, whatever it was") {
  const auto [result, words] =
      GENERATE(table<Result, std::string>({{Result::timeout, "timeout"},
                                           {Result::unhandled_cuda_error, "unhandled cuda error"},
                                           {Result::internal_error, "internal error"}}));
  NcclWorld world;
  auto transports = make_stand_in_transports(world, two_links);
  world.fail(1, result);
  const auto failures = run_on_all(transports, [&](Transport& transport, Backend& backend) {
    transport.post(1 - transport.rank(), backend, numbers(backend));
    transport.receive(1 - transport.rank(), backend);
  });
  CHECK(failures[0] == failures[1]);
  CHECK(failures[0].ends_with(words));
}

// --- What the stand-in tells ------------------------------------------------------------------

TEST_CASE("of a group with a mistake in it nothing is begun") {
  NcclWorld world({.tells = false});
  Connected connected(world);
  char byte = 1;
  const auto& calls = connected.calls[0];
  calls->group_start();
  CHECK(connected.send(byte) == Result::success);
  nccl::Communicator none = nullptr;
  CHECK(calls->send(&byte, 1, 1, none, connected.streams[0]) == Result::invalid_usage);
  CHECK(calls->group_end() == Result::invalid_usage);
  CHECK(world.calls().empty());
}

TEST_CASE("who ends a communicator inside an open group, or leaves one open, is told") {
  NcclWorld world;
  {
    Connected connected(world);
    char byte = 1;
    const auto& calls = connected.calls[0];
    calls->group_start();
    CHECK(connected.send(byte) == Result::success);
    calls->abort(connected.communicators[0]);
  }
  CHECK(world.broken_rules() ==
        std::vector<std::string>{"rank 0 ends a communicator inside a group that is still open",
                                 "rank 0 leaves a group open"});
}

TEST_CASE("groups are each thread's own") {
  NcclWorld world;
  Connected connected(world);
  char byte = 1;
  connected.calls[0]->group_start();
  std::jthread([&] { CHECK(connected.send(byte) == Result::in_progress); }).join();
  CHECK(world.calls().size() == 1);
  connected.calls[0]->group_end();
  CHECK(world.broken_rules() == std::vector<std::string>{});
}

// --- Versions ---------------------------------------------------------------------------------

TEST_CASE("headers and libraries of NCCL fit from the first whose aborts wait, within a major") {
  CHECK(nccl::version_name(22809) == "2.28.9");
  CHECK(nccl::version_name(23203) == "2.32.3");
  for (const int header : {22809, 23203}) {
    for (const int library : {22203, 22809, 23203}) {
      CHECK(nccl::fault_of_versions(header, library) == "");
    }
    CHECK_THAT(nccl::fault_of_versions(header, 22105),
               ContainsSubstring("needs 2.22.0 or newer, but the library that was found is NCCL "
                                 "2.21.5"));
    CHECK_THAT(nccl::fault_of_versions(header, 30000), ContainsSubstring("needs 2.x"));
  }
}

TEST_CASE("a result of a later NCCL is told by its number") {
  CHECK(nccl::meaning_of(8, "timeout", 23203) == "timeout");
  CHECK(nccl::meaning_of(8, "unknown result code", 22809) ==
        "result 8, which NCCL 2.28.9 has no words for");
}
