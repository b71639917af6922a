// Formulas against the simulator, wherever a formula says something.

#include "simulator/closed_forms.hpp"

#include <map>

#include "simulator/compiled.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Rows the formulas speak about.
const std::vector<std::string> known{"gpipe",           "1f1b",
                                     "dapple-pb",       "interleaved",
                                     "looped-bfs",      "hanayo",
                                     "zb-h1",           "zb-h2",
                                     "interleaved-zb",  "zb-v",
                                     "v-half",          "1f1b-decoupled-recompute",
                                     "chimera",         "chimera-doubling",
                                     "chimera-halving", "dualpipe",
                                     "dualpipev",       "seq1f1b"};

std::vector<ScheduleShape> shapes(const ScheduleKind& kind) {
  std::vector<ScheduleShape> shapes;
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int m : {1, 2, p, p + 1, 2 * p - 1, 2 * p, 3 * p + 1}) {
      for (const int v : {1, 2, 3, 4}) {
        for (const int group : {0, p + 1}) {
          ScheduleShape shape{.devices = p, .microbatches = m, .virtual_stages = v};
          if (group > 0) shape.group = group;
          if (generated(kind, shape)) shapes.push_back(shape);
        }
      }
    }
  }
  return shapes;
}

/// f, i, w and c in all proportions; recomputation as long as a forward.
std::vector<std::pair<ChunkCosts, Duration>> cost_sets() {
  std::vector<std::pair<ChunkCosts, Duration>> sets;
  for (const auto& [f, i, w] : std::vector<std::array<int, 3>>{
           {1, 1, 1}, {10, 12, 8}, {10, 8, 12}, {7, 20, 3}, {20, 5, 5}, {20, 10, 10}, {5, 5, 5}}) {
    for (const int c : {0, 1, 4, 9, 40}) {
      sets.emplace_back(split_costs(Duration{f}, Duration{i}, Duration{w}), Duration{c});
    }
  }
  return sets;
}

}  // namespace

TEST_CASE("closed forms of the step are what is simulated") {
  const std::string name = GENERATE(from_range(known));
  const ScheduleKind& kind = find_schedule(name);
  int with_latency = 0, without = 0;
  for (const ScheduleShape& shape : shapes(kind)) {
    const Program program = lower(kind.generate(shape));
    const CompiledProgram compiled(program);
    for (const auto& [chunk, transfer] : cost_sets()) {
      const std::optional<Duration> closed = closed_step(name, shape, chunk, transfer);
      if (!closed) continue;
      ++(transfer > 0ns ? with_latency : without);
      const Duration step = compiled.step(uniform(program, chunk, transfer));
      if (step == *closed) continue;
      CAPTURE(name, shape.devices, shape.microbatches, shape.virtual_stages);
      CAPTURE(shape.group.value_or(0), chunk.forward.count(), chunk.backward_input.count());
      CAPTURE(chunk.backward_weight.count(), transfer.count());
      CHECK(*closed == step);
    }
  }
  CHECK(without > 0);
  const bool knows_latency = name == "gpipe" || name == "1f1b" || name == "dapple-pb" ||
                             name == "interleaved" || name == "looped-bfs";
  CHECK((with_latency > 0) == knows_latency);
}

TEST_CASE("closed forms of memory and messages are what the order says") {
  for (const std::string& name : known) {
    const ScheduleKind& kind = find_schedule(name);
    for (const ScheduleShape& shape : shapes(kind)) {
      CAPTURE(name, shape.devices, shape.microbatches, shape.virtual_stages);
      const Schedule schedule = kind.generate(shape);
      if (const auto peaks = closed_peaks(name, shape)) {
        CHECK(peak_in_flight(schedule, false) == *peaks);
      }
      const Program program = lower(schedule);
      std::int64_t sends = 0;
      for (const Work& work : program.work) sends += is_send(work.instruction.op) ? 1 : 0;
      CHECK(closed_messages(name, shape) == sends);
    }
  }
}

TEST_CASE("nothing is claimed for what no formula is known") {
  const ChunkCosts chunk = chunk_costs(1ms, 2ms);
  CHECK_FALSE(closed_step("zb-auto", {.devices = 4, .microbatches = 8}, chunk));
  CHECK_FALSE(closed_step("1f1b", {.devices = 2, .microbatches = 8, .warm_up = {2, 2}}, chunk));
  CHECK_FALSE(closed_peaks("hanayo", {.devices = 2, .microbatches = 8, .virtual_stages = 2}));
  CHECK_FALSE(closed_messages("zb-auto", {.devices = 4, .microbatches = 8}));
}

TEST_CASE("1F1B with blocking pairs pays 2(m + p) - 5 latencies") {
  const ChunkCosts chunk = chunk_costs(10ms, 20ms);
  CHECK(closed_step_of_blocking_1f1b({.devices = 4, .microbatches = 8}, chunk, 1ms) ==
        11 * 30ms + 19ms);
  CHECK_FALSE(closed_step_of_blocking_1f1b({.devices = 2, .microbatches = 8}, chunk, 1ms));
  CHECK_FALSE(closed_step_of_blocking_1f1b({.devices = 4, .microbatches = 8}, chunk, 11ms));
}
