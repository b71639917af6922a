#include "executor/flight/watchdog.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/executor/failing_run.hpp"
#include "tests/executor/flight/flight_records.hpp"
#include "tests/executor/tiny_training.hpp"
#include "tests/executor/wrapped_transport.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Loses the message of rank `from`'s `call`-th send, or is late with it.
class Unreliable final : public WrappedTransport {
 public:
  Unreliable(std::unique_ptr<Transport> inner, int from, int call, std::optional<Duration> delay)
      : WrappedTransport(std::move(inner)), left_(rank() == from ? call : -1), delay_(delay) {}

  void send(int channel, Backend& backend, Tensor tensor, Moment available_at,
            MessageLabel label) override {
    if (left_ > 0 && --left_ == 0) {
      if (!delay_) return;
      available_at = now() + *delay_;
    }
    WrappedTransport::send(channel, backend, std::move(tensor), available_at, label);
  }

 private:
  int left_;
  std::optional<Duration> delay_;
};

Machinery unreliable(int from, int call, std::optional<Duration> delay = {}) {
  return machinery_with([=](std::unique_ptr<Transport> inner) {
    return std::make_unique<Unreliable>(std::move(inner), from, call, delay);
  });
}

/// Two ranks, whose records are both of this process, but only rank 0 has a watchdog.
struct TwoRanks {
  TwoRanks(const std::string& name, Duration deadline)
      : folder(name), oversight{.flight_records = folder.path(), .deadline = deadline} {}

  const Program& program() const { return prepared.compiled.program; }
  std::unique_ptr<Watchdog> watched() {
    return std::make_unique<Watchdog>(
        std::vector<WatchedRank>{{.flight = &own, .transport = transports[0].get()}},
        limits_of(prepared.compiled, oversight), oversight);
  }
  /// Rank 1's, in its seventh step.
  std::unique_ptr<FlightRecord> other() const {
    auto record = std::make_unique<FlightRecord>(oversight, program(), map, 1);
    record->begin_step(6);
    return record;
  }

  Folder folder;
  Prepared prepared = prepare({.devices = 2});
  RankMap map = one_rank_per_device(prepared.compiled.program);
  Oversight oversight;
  FlightRecord own{oversight, prepared.compiled.program, map, 0};
  std::vector<std::unique_ptr<Transport>> transports =
      make_thread_transports({.ranks = 2, .channels = {}, .groups = {}});
};

}  // namespace

TEST_CASE(
    "a message that is lost with none behind it ends the run with the one that waits for it") {
  const Prepared prepared = prepare({.devices = 3, .microbatches = 4});
  const Folder folder("lost");
  const RunOptions options{.steps = 3,
                           .oversight = {.flight_records = folder.path(), .deadline = 300ms}};
  const Moment start = now();
  // Rank 0 sends four messages a step, and loses the eighth: no other shows that it is missing.
  const std::string message = message_of(prepared, options, unreliable(0, 8));
  CHECK(now() - start < 5s);
  CHECK_THAT(message, ContainsSubstring("the run does not go on: rank 1 (stage 1, replica 0) waits "
                                        "during F1.3 in step 2 since ") &&
                          ContainsSubstring("for a message that rank 0 has sent: it was lost on "
                                            "its way"));
  CHECK_THAT(message, !ContainsSubstring("failed"));
  const FlightRecords records = read_flight_records(folder.path());
  CHECK(records.ranks[0].cause == Cause::stalled);
  CHECK(records.ranks[0].failure == message);
}

TEST_CASE("a message that is late, but within the deadline, is waited for") {
  const Prepared prepared = prepare({.devices = 2});
  CHECK(message_of(prepared, {.steps = 2, .oversight = {.deadline = 2s}},
                   unreliable(0, 2, 500ms)) == "");
}

TEST_CASE("a rank that computes for too long is the one that is named, with who waits for it",
          "[seconds]") {
  const Prepared prepared = prepare({.devices = 3, .microbatches = 4});
  // A rank busy with its fourth send does not come back from it for a while.
  class Slow final : public WrappedTransport {
   public:
    using WrappedTransport::WrappedTransport;
    void post(int channel, Backend& backend, Tensor memory) override {
      WrappedTransport::post(channel, backend, std::move(memory));
      if (rank() == 1 && ++posts_ == 4) std::this_thread::sleep_for(1500ms);
    }

   private:
    int posts_ = 0;
  };
  const Machinery machinery = machinery_with(
      [](std::unique_ptr<Transport> inner) { return std::make_unique<Slow>(std::move(inner)); });
  std::atomic<int> stuck = 0;
  const RunOptions options{
      .steps = 2,
      .oversight = {.deadline = 200ms, .on_stuck = [&](const std::string&) { ++stuck; }}};
  const std::string message = message_of(prepared, options, machinery);
  CHECK_THAT(message, ContainsSubstring("rank 1 (stage 1, replica 0) computes R") &&
                          ContainsSubstring(" in step 1 since ") &&
                          ContainsSubstring("; the deadline is 200") && ContainsSubstring("wait"));
  CHECK(stuck <= 1);
}

TEST_CASE("limits are the deadline, or 20 times what was simulated") {
  Prepared prepared = prepare({.devices = 2});
  for (ChunkCosts& costs : prepared.compiled.costs.chunks) costs.forward = 1min;
  const Limits limits = limits_of(prepared.compiled, {.predicted_step = 5min});
  const auto& work = prepared.compiled.program.work;
  for (std::size_t i = 0; i < work.size(); ++i) {
    CHECK(limits.work[i] == (work[i].instruction.op == Op::forward ? Duration(20min) : 30s));
  }
  CHECK(limits.wait == 100min);
  CHECK(limits_of(prepared.compiled, {.deadline = 1s}).wait == 1s);
}

TEST_CASE("the process of another rank that falls silent ends the run", "[seconds]") {
  TwoRanks ranks("silent", 1min);
  const auto watchdog = ranks.watched();
  const auto other = ranks.other();
  other->begin(ranks.program().order[1].front());
  const Moment start = now();
  CHECK_THROWS_WITH(ranks.transports[0]->barrier(),
                    ContainsSubstring("rank 1 (stage 1, replica 0) is silent: its process ") &&
                        ContainsSubstring("in step 7"));
  CHECK(now() - start < 5s);
}

TEST_CASE("what a process sent just before it was stopped is not called lost", "[seconds]") {
  TwoRanks ranks("stopped", 1s);
  const auto& channels = ranks.map.wiring().channels;
  const auto back = std::ranges::find(channels, 1, &ChannelEnds::from);
  REQUIRE(back != channels.end());
  const int channel = static_cast<int>(back - channels.begin());
  ranks.own.begin_step(6);
  ranks.own.begin(ranks.program().order[0].back());
  ranks.own.wait(Doing::receiving, channel, 1);
  const auto watchdog = ranks.watched();
  const auto other = ranks.other();
  other->begin(ranks.program().order[1].back());
  other->beat();
  other->count_message(Doing::sending, channel);
  CHECK_THROWS_WITH(ranks.transports[0]->barrier(),
                    ContainsSubstring("rank 1 (stage 1, replica 0) is silent: its process ") &&
                        ContainsSubstring("rank 0 waits for it"));
}
