// Formulas against the simulator, wherever a formula says something.

#include "simulator/analyses/closed_forms.hpp"

#include <map>

#include "simulator/checks/check.hpp"
#include "simulator/engines/compiled.hpp"
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
                                     "dualpipev",       "seq1f1b",
                                     "v-min",           "bpipe",
                                     "pipedream",       "pipedream-vertical-sync",
                                     "pipedream-2bw",   "inference"};

std::vector<ScheduleShape> shapes(const ScheduleKind& kind) {
  std::vector<ScheduleShape> shapes;
  for (const int p : {1, 2, 3, 4, 8}) {
    if (p == 8 && kind.generate == v_min) continue;  // takes long, and has a test of its own
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

/// Megatron's interleaved order of p devices by its table, in groups of p, the last as it comes.
Schedule table_order(int p, int v, int m) {
  Schedule schedule = interleaved({.devices = p, .microbatches = p, .virtual_stages = v});
  schedule.microbatches = m;
  std::vector<std::pair<int, int>> table;  // microbatch, stage on its device
  for (int group = 0; group < m; group += p) {
    for (int c = 0; c < v; ++c) {
      for (int k = group; k < std::min(group + p, m); ++k) table.emplace_back(k, c);
    }
  }
  for (int r = 0; r < p; ++r) {
    auto& order = schedule.devices[index(r)];
    order.clear();
    const int warm_up = std::min(m * v, 2 * (p - r - 1) + (v - 1) * p);
    for (int i = 0; i < m * v + warm_up; ++i) {
      const int backward = i - warm_up;
      if (i < m * v)
        order.push_back({Op::forward, table[index(i)].second * p + r, table[index(i)].first});
      if (backward < 0) continue;
      const auto& [microbatch, c] = table[index(backward)];
      order.push_back({Op::backward, (v - 1 - c) * p + r, microbatch});
    }
  }
  return schedule;
}

}  // namespace

TEST_CASE("closed forms of the step are what is simulated", "[seconds]") {
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
                             name == "interleaved" || name == "looped-bfs" ||
                             name.starts_with("pipedream") || name == "inference";
  CHECK((with_latency > 0) == knows_latency);
}

TEST_CASE("closed forms of memory and messages are what the order says", "[seconds]") {
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

TEST_CASE("asynchronous schedules and BPipe: the formulas for 2 to 16 devices, many microbatches",
          "[seconds]") {
  for (const std::string name :
       {"pipedream", "pipedream-vertical-sync", "pipedream-2bw", "bpipe"}) {
    for (int p = 2; p <= 16; ++p) {
      for (const int m : {p - 1, p, 2 * p - 2, p < 6 ? 40 * (p - 1) : 3 * p}) {
        ScheduleShape shape{.devices = p, .microbatches = m};
        if (name == "pipedream-2bw") shape.group = p - 1;
        const auto schedule = generated(find_schedule(name), shape);
        if (!schedule) continue;
        const Program program = lower(*schedule);
        const CompiledProgram compiled(program);
        for (const Duration transfer : {0ns, 3ns, 70ns}) {
          const ChunkCosts chunk = chunk_costs(10ns, 20ns);
          const auto closed = closed_step(name, shape, chunk, transfer);
          CAPTURE(name, p, m, transfer.count());
          CHECK(closed.has_value() == (name != "bpipe" || transfer == 0ns));
          if (closed) CHECK(compiled.step(uniform(program, chunk, transfer)) == *closed);
        }
      }
    }
  }
}

TEST_CASE("inference: the prompts fill the pipeline once, each token takes a period") {
  for (int p = 1; p <= 16; ++p) {
    for (const int m : {1, 2, p, p + 1, 3 * p}) {
      for (const int tokens : {0, 1, 5}) {
        const ScheduleShape shape{.devices = p, .microbatches = m, .decode_steps = tokens};
        const Schedule schedule = inference(shape);
        const Program program = lower(schedule);
        for (const Duration transfer : {0ns, 3ns, 70ns}) {
          CAPTURE(p, m, tokens, transfer.count());
          const Costs costs = uniform(program, {.forward = 10ns}, transfer);
          CHECK(closed_step("inference", shape, {.forward = 10ns}, transfer) ==
                step_time(simulate(program, costs)));
        }
        std::int64_t sends = 0;
        for (const Work& work : program.work) sends += is_send(work.instruction.op) ? 1 : 0;
        CHECK(closed_messages("inference", shape) == sends);
      }
    }
  }
}

TEST_CASE("V-Min: the ramps of 3 to 16 devices", "[seconds]") {
  int claimed = 0;
  for (int p = 2; p <= 16; ++p) {
    for (const int m : {p, p + 1, p < 8 ? 4 * p : 0}) {
      if (m == 0) continue;
      const ScheduleShape shape{.devices = p, .microbatches = m, .virtual_stages = 2};
      const ChunkCosts chunk = split_costs(10ns, 10ns, 10ns);
      const auto closed = closed_step("v-min", shape, chunk);
      if (!closed) continue;
      CAPTURE(p, m);
      CHECK(step_time(run(v_min(shape), chunk)) == *closed);
      ++claimed;
    }
  }
  CHECK(claimed == 10 * 2 + 4);
}

TEST_CASE("V-Min: a long F or I costs 3 max(f, i) - (f + i + w) more per microbatch, a long W none",
          "[seconds]") {
  // Durations of stages, half those of a device: at (10, 12, 8) a device's microbatch takes 36, not
  // 30.
  const auto hints = [](const ChunkCosts& chunk) {
    return ScheduleHints{.forward = 2 * chunk.forward,
                         .backward_input = 2 * chunk.backward_input,
                         .backward_weight = 2 * chunk.backward_weight};
  };
  for (const auto& [chunk, period] :
       {std::pair{split_costs(5ns, 6ns, 4ns), 36ns}, std::pair{split_costs(5ns, 4ns, 6ns), 30ns},
        std::pair{split_costs(5ns, 5ns, 5ns), 30ns}, std::pair{split_costs(6ns, 5ns, 4ns), 36ns}}) {
    CHECK(longest_period_of_v_min(chunk) == period);
    for (const int p : {3, 7}) {
      const auto step = [&, &chunk = chunk](int m) {
        return step_time(run(
            v_min({.devices = p, .microbatches = m, .virtual_stages = 2, .hints = hints(chunk)}),
            chunk));
      };
      CAPTURE(p, chunk.backward_input.count());
      const Duration further = step(16) - step(12);
      CHECK(further <= 4 * period);
      if (p == 7) CHECK(further == 4 * period);
    }
  }
}

TEST_CASE("interleaved: no excess for microbatches that are no multiple of the devices") {
  // Calculon adds (v - 1)(p - m mod p) stages' times; with a legal group there is nothing to add.
  const ChunkCosts chunk = chunk_costs(10ns, 20ns);
  const ScheduleShape ragged{.devices = 4, .microbatches = 10, .virtual_stages = 2, .group = 5};
  const Duration with_excess = (10 * 2 + 4 - 1 + (2 - 1) * (4 - 10 % 4)) * 30ns;
  const Duration step = step_time(run(interleaved(ragged), chunk));
  CHECK(step == (10 * 2 + 4 - 1) * 30ns);
  CHECK(step == closed_step("interleaved", ragged, chunk));
  CHECK(step + 2 * 30ns == with_excess);
}

TEST_CASE("interleaved: Megatron's table with groups of p and a ragged rest dead-locks") {
  for (const auto& [p, v, m] : {std::array{8, 2, 10}, {8, 2, 13}, {4, 3, 5}}) {
    CAPTURE(p, v, m);
    CHECK_THROWS_AS(interleaved({.devices = p, .microbatches = m, .virtual_stages = v, .group = p}),
                    Error);
    const CheckReport report = check(lower(table_order(p, v, m)));
    REQUIRE_FALSE(report.safe());
    CHECK(report.findings.front().rule == "deadlock");
  }
  // The table is the usual one: whole groups give the usual order.
  CHECK(table_order(4, 2, 8).devices ==
        interleaved({.devices = 4, .microbatches = 8, .virtual_stages = 2}).devices);
}
