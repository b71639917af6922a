// Ranks in several processes end with the reference's bits: every synchronous schedule, cut,
// recomputation and replication.

#include "executor/machinery.hpp"
#include "executor/processes.hpp"
#include "tests/catch.hpp"
#include "tests/executor/equality_matrix.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Machinery in_processes() {
  Machinery machinery;
  machinery.make_transports = make_mpi_transports;
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
  CHECK(compared > 20);
}

}  // namespace

TEST_CASE("processes end with the reference's bits, for some plans of every synchronous schedule") {
  if (!launch()) SKIP("not started by mpirun");
  compare(211);
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
        Setting{.devices = 2, .rows = 4, .replicas = {3, 1}, .style = Style::network}}) {
    INFO(describe(setting));
    CHECK(differences.of(setting) == "");
  }
}
