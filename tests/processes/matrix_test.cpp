// Ranks in several processes end with the reference's bits: every synchronous schedule, cut,
// recomputation and replication.

#include <chrono>
#include <cstdlib>
#include <map>

#include "executor/driver/machinery.hpp"
#include "executor/transports/processes.hpp"
#include "tests/catch.hpp"
#include "tests/executor/equality_matrix.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

Machinery in_processes() {
  Machinery machinery;
  machinery.make_transports = make_process_transports;
  return machinery;
}

/// What the process that has the result differs in; nothing elsewhere.
class Differences {
 public:
  std::string of(const Setting& setting) {
    const RunOptions options{.steps = 2};
    const Prepared prepared = prepare(setting);
    const RunResult result = execute(prepared.plan, prepared.profile, prepared.compiled,
                                     prepared.dataset, options, in_processes());
    if (launch()->rank != 0) return "";
    return first_difference(result, references_.of(setting, prepared, options));
  }

 private:
  References references_;
};

/// Every `every`-th plan that all synchronous schedules owe.
void compare(int every) {
  Differences differences;
  int compared = 0;
  for (std::size_t row = 0; row < schedule_kinds.size(); ++row) {
    const ScheduleKind& kind = schedule_kinds[row];
    if (!kind.synchronous) continue;
    for (const Setting& setting : equality_matrix(kind, every, 5 * static_cast<int>(row))) {
      if (device_count(setting) > launch()->processes) continue;
      ++compared;
      INFO(describe(setting));
      CHECK(differences.of(setting) == "");
    }
  }
  if (launch()->rank == 0) WARN(compared << " plans compared");
  CHECK(compared > 10);
}

}  // namespace

TEST_CASE("processes end with the reference's bits, for some plans of every synchronous schedule") {
  if (!launch()) SKIP("not started by mpirun");
  compare(421);
}

TEST_CASE("all of it: processes end with the reference's bits", "[.][matrix]") {
  if (!launch()) SKIP("not started by mpirun");
  compare(1);
}

TEST_CASE("so do unequal replicas, sharded optimizers, asynchronous schedules and images") {
  if (!launch()) SKIP("not started by mpirun");
  Differences differences;
  for (const Setting& setting :
       {Setting{.devices = 3, .microbatches = 5, .rows = 4, .replicas = {1, 3, 2}},
        Setting{.devices = 2,
        .microbatches = 5,
        .rows = 4,
        .replicas = {2, 1},
        .policy = ReplicaPolicy::round_robin},
        Setting{.devices = 2, .rows = 6, .replicas = {2, 3}, .sharding = Sharding::zero1},
        Setting{.schedule = "pipedream", .devices = 3, .tied = false},
        Setting{.schedule = "bpipe", .devices = 4, .microbatches = 8, .rows = 4},
        Setting{.schedule = "inference", .devices = 3},
        Setting{.schedule = "seq1f1b",
        .devices = 3,
        .rows = 4,
        .replicas = {2, 1, 2},
        .recompute = Recompute::full,
        .sequence_chunks = 4},
        Setting{.devices = 2, .rows = 4, .replicas = {3, 1}, .style = Style::network}}) {
    INFO(describe(setting));
    CHECK(differences.of(setting) == "");
  }
}

TEST_CASE("no message of another process has arrived before it was sent") {
  if (!launch()) SKIP("not started by mpirun");
  const Prepared prepared =
      prepare({.schedule = "interleaved", .devices = 4, .virtual_stages = 2, .microbatches = 8});
  const RunResult result = execute(prepared.plan, prepared.profile, prepared.compiled,
                                   prepared.dataset, {.steps = 3}, in_processes());
  if (launch()->rank != 0) return;
  std::map<Instruction, Duration> sent;
  for (const Span& span : result.timeline.spans) {
    if (span.lane == Lane::send) sent[span.instruction] = span.start;
  }
  // Two clocks, each compared in a round trip.
  const Duration error = getenv("STAGECRAFT_PROCESSES_APART") != nullptr ? 1ms : 0ms;
  int received = 0;
  for (const Span& span : result.timeline.spans) {
    if (span.lane != Lane::receive) continue;
    const bool up = span.instruction.op == Op::receive_activation;
    const Instruction send{up ? Op::send_activation : Op::send_gradient,
                           span.instruction.stage + (up ? -1 : 1), span.instruction.microbatch};
    INFO(to_string(send));
    REQUIRE(sent.contains(send));
    CHECK(span.end + error >= sent[send]);
    ++received;
  }
  CHECK(received == 2 * 7 * 8);
}
