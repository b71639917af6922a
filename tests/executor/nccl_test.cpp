// The transport over NCCL, on a stand-in that holds it to NCCL's rules: equal bits, one order, and
// one cause where something fails. (The contract of transports runs over it in transport_test.cpp.)

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "executor/transports/nccl/transport.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/executor/distant_backend.hpp"
#include "tests/executor/equality_matrix.hpp"
#include "tests/executor/failing_run.hpp"
#include "tests/executor/nccl_stand_in.hpp"
#include "tests/executor/ranks_on_threads.hpp"
#include "tests/executor/wrapped_calls.hpp"
#include "tests/executor/wrapped_transport.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

using Wrap = std::function<std::unique_ptr<nccl::Calls>(std::unique_ptr<nccl::Calls>, int)>;

/// Devices with memory of their own, connected by this world.
Machinery over(NcclWorld& world, const Wrap& wrap = {}) {
  Machinery machinery;
  machinery.make_backend = [](int) { return std::make_unique<DistantBackend>(); };
  machinery.make_dry_backend = [] { return std::make_unique<DryBackend>(); };
  machinery.make_transports = [&world, wrap](const Wiring& wiring) {
    return make_stand_in_transports(world, wiring, wrap);
  };
  return machinery;
}

/// Streams that all wait for each other are the hardest: only the program's order helps then.
NcclManner hardest() {
  return {.one_queue = true, .distance = DistantBackend::distance};
}

std::string difference_from_threads(const Setting& setting, int steps) {
  const Prepared prepared = prepare(setting);
  const RunOptions options{.steps = steps};
  NcclWorld world(hardest());
  const RunResult run_over = execute(prepared.plan, prepared.profile, prepared.compiled,
                                     prepared.dataset, options, over(world));
  CHECK(world.broken_rules() == std::vector<std::string>{});
  return first_difference(run_over, run(prepared, options));
}

/// What `make` throws.
std::string sentence_of(const std::function<void()>& make) {
  try {
    make();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::execution);
    return error.what();
  }
  return "";
}

Tensor numbers(Backend& backend, std::int64_t elements) {
  Tensor tensor = backend.allocate({elements}, Precision::float32);
  std::fill_n(tensor.data<float>(), elements, 1.0F);
  return tensor;
}

/// A wiring of two ranks with a channel each way and a sum.
const Wiring both_ways{
    .ranks = 2, .channels = {{.from = 0, .to = 1}, {.from = 1, .to = 0}}, .groups = {{0, 1}}};

}  // namespace

TEST_CASE("over NCCL every schedule ends with the bits of threads, even if all streams wait",
          "[seconds]") {
  int row = 0;
  for (const ScheduleKind& kind : schedule_kinds) {
    const bool replicates = row++ % 2 == 0;
    const Setting setting{.schedule = std::string(kind.name),
                          .devices = replicates ? 2 : 4,
                          .virtual_stages = fewest_virtual_stages(kind.placement),
                          .replicas = replicates ? std::vector<int>{2, 1} : std::vector<int>{},
                          .tied = kind.synchronous};
    if (!is_legal(setting) || !is_lowered(setting)) continue;
    INFO(describe(setting));
    CHECK(difference_from_threads(setting, 1) == "");
  }
}

TEST_CASE("so do shards, peers, rows in turn, recomputation and more of everything", "[seconds]") {
  const Setting setting = GENERATE(from_range(std::vector<Setting>{
      {.schedule = "gpipe",
       .devices = 2,
       .rows = 4,
       .replicas = {2, 2},
       .sharding = Sharding::zero1},
      {.devices = 2, .rows = 6, .replicas = {2, 3}},
      {.devices = 2, .microbatches = 5, .replicas = {2, 1}, .policy = ReplicaPolicy::round_robin},
      {.devices = 2, .tied = false, .degrees = {2, 1}},
      {.devices = 2, .rows = 4, .replicas = {2, 2}, .degrees = {2, 2}},
      {.schedule = "interleaved", .devices = 2, .virtual_stages = 2, .recompute = Recompute::full},
      {.schedule = "bpipe", .devices = 4, .microbatches = 8},
      {.devices = 3, .style = Style::llama}}));
  INFO(describe(setting));
  REQUIRE(is_legal(setting));
  CHECK(difference_from_threads(setting, 2) == "");
}

TEST_CASE("every link is tried out before the first message, in the same order everywhere") {
  NcclWorld world;
  {
    auto transports = make_stand_in_transports(world, {.ranks = 3,
                                                       .channels = {{.from = 0, .to = 1},
                                                                    {.from = 1, .to = 2},
                                                                    {.from = 1, .to = 0},
                                                                    {.from = 0, .to = 1}},
                                                       .groups = {{2, 0}}});
    std::vector<std::string> of_rank_0;
    for (const NcclCall& call : world.calls()) {
      if (call.rank == 0) of_rank_0.push_back(call.words);
    }
    CHECK(of_rank_0 ==
          std::vector<std::string>{"send 1 bytes to rank 1", "receive 1 bytes from rank 1",
                                   "send 1 bytes to rank 2", "receive 1 bytes from rank 2"});
    CHECK(world.calls().size() == 3 * 2 + 4);  // one way, or both
  }
  CHECK(world.broken_rules() == std::vector<std::string>{});
}

TEST_CASE("in another order than the program's, 1F1B's ranks wait in a circle") {
  // Sends right behind their computations: what suits transports whose messages are independent.
  class Unordered final : public WrappedTransport {
   public:
    using WrappedTransport::WrappedTransport;
    bool needs_global_order() const override { return false; }
  };
  NcclWorld world(hardest());
  Machinery machinery = over(world);
  machinery.make_transports = [&world](const Wiring& wiring) {
    auto transports = make_stand_in_transports(world, wiring);
    for (auto& each : transports) each = std::make_unique<Unordered>(std::move(each));
    return transports;
  };
  const Prepared prepared = prepare({.devices = 2, .microbatches = 8});
  CHECK_THAT(message_of(prepared, {.steps = 2}, machinery),
             ContainsSubstring("ranks wait for each other in a circle: rank "));
}

// --- Mutants: each breaks one rule, and is told which
// ----------------------------------------------

TEST_CASE("ranks that call in different orders wait in a circle, and are named") {
  const bool in_order = GENERATE(true, false);
  NcclWorld world({.one_queue = true});
  auto transports = make_stand_in_transports(world, both_ways);
  const auto failures = run_on_all(transports, [&](Transport& transport, Backend& backend) {
    const int out = transport.rank(), in = 1 - out;
    const bool sends_first = in_order && transport.rank() == 0;
    if (sends_first) transport.send(out, backend, numbers(backend, 10), now());
    transport.post(in, backend, numbers(backend, 10));
    if (!sends_first) transport.send(out, backend, numbers(backend, 10), now());
    transport.receive(in, backend);
    transport.barrier();
  });
  if (in_order) {
    CHECK(failures == std::vector<std::string>(2, ""));
    CHECK(world.broken_rules() == std::vector<std::string>{});
    return;
  }
  REQUIRE(world.broken_rules().size() == 1);
  CHECK(world.broken_rules().front() ==
        "ranks wait for each other in a circle: rank 0 to receive 40 bytes from rank 1, rank 1 to "
        "receive 40 bytes from rank 0");
  CHECK(failures[0] == failures[1]);
  CHECK_THAT(failures[0],
             ContainsSubstring("invalid usage (ranks wait for each other in a circle: "));
}

namespace {

/// Sends one byte too few of everything longer than one.
class SendsTooLittle final : public WrappedCalls {
 public:
  using WrappedCalls::WrappedCalls;
  nccl::Result send(const void* data, std::size_t bytes, int peer, nccl::Communicator communicator,
                    nccl::Stream stream) override {
    return WrappedCalls::send(data, std::max<std::size_t>(bytes, 2) - 1, peer, communicator,
                              stream);
  }
};

/// Calls one by one what belongs together.
class ForgetsGroups final : public WrappedCalls {
 public:
  using WrappedCalls::WrappedCalls;
  nccl::Result group_start() override { return nccl::Result::success; }
  nccl::Result group_end() override { return nccl::Result::in_progress; }
};

/// Takes whatever was begun for done.
class Impatient final : public WrappedCalls {
 public:
  using WrappedCalls::WrappedCalls;
  nccl::Result init_rank(nccl::Communicator& communicator, int members, const nccl::UniqueId& id,
                         int place) override {
    WrappedCalls::init_rank(communicator, members, id, place);
    return nccl::Result::success;
  }
};

/// What is sent, and whether it was gone when NCCL let go of it.
struct Watched {
  std::atomic<bool> is_sent = false, was_gone = false;
  std::weak_ptr<void> memory;
};

/// Begins with all it is asked for, but says that it could not once something watched is sent.
class FailsOnceBegun final : public WrappedCalls {
 public:
  FailsOnceBegun(std::unique_ptr<nccl::Calls> inner, Watched& watched)
      : WrappedCalls(std::move(inner)), watched_(watched) {}
  nccl::Result group_end() override {
    const nccl::Result result = WrappedCalls::group_end();
    const bool has_begun = result == nccl::Result::in_progress;
    return watched_.is_sent && has_begun ? nccl::Result::internal_error : result;
  }
  nccl::Result abort(nccl::Communicator communicator) override {
    if (watched_.is_sent && watched_.memory.expired()) watched_.was_gone = true;
    return WrappedCalls::abort(communicator);
  }

 private:
  Watched& watched_;
};

template <class Kind>
Wrap on_rank(int which) {
  return [which](std::unique_ptr<nccl::Calls> calls, int rank) {
    return rank == which ? std::make_unique<Kind>(std::move(calls)) : std::move(calls);
  };
}

}  // namespace

TEST_CASE("a wrong count, a forgotten group and a call that comes too early are told from others") {
  const auto [wrap, rule] = GENERATE(table<Wrap, std::string>(
      {{on_rank<SendsTooLittle>(1), "counts differ: rank 1 asks to send 1"},
       {on_rank<ForgetsGroups>(0),
        "rank 0 asks more of a communicator that is not done with what it was asked for before"},
       {on_rank<Impatient>(1), "rank 1 asks more of a communicator that is not connected yet"}}));
  const Prepared prepared = prepare({.devices = 2, .rows = 4, .replicas = {2, 2}});
  NcclWorld world(hardest());
  const Moment start = now();
  const std::string message = message_of(prepared, {.steps = 2}, over(world, wrap));
  CHECK(now() - start < 5s);
  REQUIRE(!world.broken_rules().empty());
  CHECK_THAT(world.broken_rules().front(), ContainsSubstring(rule));
  CHECK_THAT(message, ContainsSubstring("invalid usage") || ContainsSubstring("invalid argument"));
}

TEST_CASE("what NCCL fails to begin with keeps its memory until the communicator is gone") {
  Watched watched;
  NcclWorld world;
  auto transports = make_stand_in_transports(
      world, both_ways,
      [&](std::unique_ptr<nccl::Calls> calls, int rank) -> std::unique_ptr<nccl::Calls> {
        if (rank == 1) return calls;
        return std::make_unique<FailsOnceBegun>(std::move(calls), watched);
      });
  const auto failures = run_on_all(transports, [&](Transport& transport, Backend& backend) {
    if (transport.rank() == 0) {
      Tensor sent = numbers(backend, 10);
      watched.memory = sent.storage;
      watched.is_sent = true;
      transport.send(0, backend, std::move(sent), now());
    } else {
      transport.post(0, backend, numbers(backend, 10));
      transport.receive(0, backend);
    }
    transport.barrier();
  });
  CHECK_THAT(failures[0], ContainsSubstring("NCCL cannot start a group"));
  CHECK(failures[1] == failures[0]);
  CHECK_FALSE(watched.was_gone);
  CHECK_FALSE(watched.memory.expired());
  transports.clear();
  CHECK(watched.memory.expired());
}

TEST_CASE("nobody uses a communicator after its end") {
  NcclWorld world;
  const auto calls = world.calls_of(0);
  nccl::UniqueId id{};
  nccl::Communicator communicator = nullptr;
  calls->get_unique_id(id);
  calls->init_rank(communicator, 1, id, 0);
  calls->abort(communicator);
  nccl::Result state{};
  CHECK(calls->async_error(communicator, state) == nccl::Result::invalid_argument);
  CHECK(world.broken_rules() ==
        std::vector<std::string>{"rank 0 uses a communicator after its end"});
}

// --- Failures: one cause, in time
// ------------------------------------------------------------------

TEST_CASE("two ranks on one GPU are refused before NCCL meets them") {
  NcclWorld world({.devices = {"node/1", "node/2", "node/1"}});
  const Wiring wiring{.ranks = 3, .channels = {{.from = 0, .to = 2}}, .groups = {}};
  CHECK_THAT(sentence_of([&] { make_stand_in_transports(world, wiring); }),
             ContainsSubstring("--transport nccl: ranks 0 and 2 share a GPU (node/1)"));
}

TEST_CASE("a member that does not come is missed at the deadline") {
  NcclWorld world;
  world.lose(1, /*silent=*/true);
  const Moment start = now();
  const std::string sentence =
      sentence_of([&] { make_stand_in_transports(world, both_ways, {}, 200ms); });
  CHECK(now() - start < 3s);
  CHECK_THAT(sentence, ContainsSubstring("cannot connect: the link from rank 0 to rank 1 is not "
                                         "there after 200ms; NCCL_DEBUG=INFO shows"));
}

TEST_CASE("a rank that is gone, or whose NCCL fails, ends the run with one cause") {
  const bool gone = GENERATE(true, false);
  const Prepared prepared = prepare({.devices = 3, .microbatches = 4, .tied = false});
  NcclWorld world(hardest());
  std::optional<Moment> lost;
  RunOptions options{.steps = 100'000};
  options.on_step = [&](const StepReport& step) {
    if (step.step != 1) return;
    gone ? world.lose(2) : world.fail(2);
    lost = now();
  };
  const std::string message = message_of(prepared, options, over(world));
  REQUIRE(lost);
  CHECK(now() - *lost < 2s);
  INFO(message);
  CHECK(message.starts_with(gone ? "rank 1" : "rank 2"));
  CHECK(message.ends_with(gone ? "remote process exited or there was a network error"
                               : "unhandled system error"));
  CHECK(world.broken_rules() == std::vector<std::string>{});
}

TEST_CASE("where NCCL itself notices nothing, the watchdog does") {
  const Prepared prepared = prepare({.devices = 3, .microbatches = 4});
  NcclWorld world(hardest());
  RunOptions options{.steps = 100'000, .oversight = {.deadline = 300ms}};
  std::optional<Moment> lost;
  options.on_step = [&](const StepReport& step) {
    if (step.step != 1) return;
    world.lose(2, /*silent=*/true);
    lost = now();
  };
  const std::string message = message_of(prepared, options, over(world));
  REQUIRE(lost);
  CHECK(now() - *lost < 5s);
  CHECK(message.starts_with("the run does not go on: rank "));
}

TEST_CASE("NCCL's own sums are used where they are asked for, and nowhere else", "[seconds]") {
  const Setting setting = GENERATE(from_range(std::vector<Setting>{
      {.devices = 2, .rows = 4, .replicas = {4, 1}, .tied = false},
      {.schedule = "gpipe", .devices = 1, .rows = 4, .replicas = {4}, .sharding = Sharding::zero1},
      {.devices = 2, .tied = true, .degrees = {2, 2}}}));
  INFO(describe(setting));
  const Prepared prepared = prepare(setting);
  const RunOptions options{.steps = 2};
  const auto run_with = [&](bool in_order, int& sums) {
    NcclWorld world(hardest());
    Machinery machinery = over(world);
    machinery.make_transports = [&](Wiring wiring) {
      wiring.sums_in_order = in_order;
      return make_stand_in_transports(world, wiring);
    };
    const RunResult result = execute(prepared.plan, prepared.profile, prepared.compiled,
                                     prepared.dataset, options, machinery);
    CHECK(world.broken_rules() == std::vector<std::string>{});
    const auto calls = world.calls();
    sums = static_cast<int>(std::ranges::count_if(calls, [](const NcclCall& call) {
      return call.words.find("the sum of") != std::string::npos;
    }));
    return result;
  };
  int sums = 0;
  const RunResult in_order = run_with(true, sums);
  CHECK(sums == 0);
  CHECK(first_difference(in_order, run(prepared, options)) == "");
  const RunResult native = run_with(false, sums);
  CHECK(sums > 0);
  // The stand-in adds from the last to the first: other bits, but the same numbers.
  const Distance apart = distance(native, in_order);
  CHECK(apart.losses < rounding_tolerance(Precision::float32));
  CHECK(apart.weights < 1e-3);  // AdamW's first steps are signs of gradients
  if (setting.replicas.size() == 2) CHECK(first_difference(native, in_order) != "");
}

TEST_CASE("a scattered sum whose parts are not equal is one that everybody gets") {
  NcclWorld world;
  auto transports = make_stand_in_transports(
      world, {.ranks = 3, .channels = {}, .groups = {{0, 1, 2}}, .sums_in_order = false});
  const std::size_t trials = world.calls().size();
  const std::int64_t elements = GENERATE(9, 10);
  std::mutex mutex;
  int right = 0;
  const auto failures = run_on_all(transports, [&](Transport& transport, Backend& backend) {
    Tensor tensor = numbers(backend, elements);
    transport.reduce_scatter(0, backend, tensor);
    const Tensor own = shard_of(tensor, static_cast<std::size_t>(transport.rank()), 3);
    const std::lock_guard lock(mutex);
    for (std::int64_t i = 0; i < own.elements(); ++i) right += own.data<float>()[i] == 3.0F;
  });
  CHECK(failures == std::vector<std::string>(3));
  CHECK(right == elements);
  int scattered = 0;
  const std::vector<NcclCall> calls = world.calls();
  for (std::size_t i = trials; i < calls.size(); ++i) {
    scattered += calls[i].words.starts_with("scatter") ? 1 : 0;
  }
  CHECK(scattered == (elements == 9 ? 3 : 0));
}
