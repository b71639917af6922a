// Small problems whose plans have columns, and all layouts of a setting.

#pragma once

#include <functional>

#include "planner/space/space.hpp"
#include "planner/timing/fast_clock.hpp"
#include "tests/planner/cases.hpp"

namespace stagecraft::tests {

/// Microbatches of four samples, so that there are columns; several kinds of schedule.
inline Problem problem_with_columns(std::uint32_t seed) {
  Random random(seed);
  Problem problem = random_problem(seed, {.layers = 5, .devices = 4});
  for (ProfileEntry& entry : problem.profile.entries) {
    entry.setting.microbatch = 4;
    for (LayerCost& cost : entry.layers) cost.saved_for_weight = cost.saved / 2;
  }
  const int microbatches = random.between(1, 4);
  problem.global_batch = std::int64_t{4} * microbatches;
  problem.microbatches = {4};
  problem.straight = false;
  const std::vector<ScheduleChoice> schedules{{.name = "1f1b"},
                                              {.name = "gpipe"},
                                              {.name = "interleaved", .virtual_stages = 2},
                                              {.name = "zb-h1"},
                                              {.name = "zb-h2"},
                                              {.name = "zb-v", .virtual_stages = 2},
                                              {.name = "hanayo", .virtual_stages = 2},
                                              {.name = "dapple-pb"},
                                              {.name = "interleaved-zb", .virtual_stages = 2}};
  problem.schedules = {schedules[static_cast<std::size_t>(random.between(0, 8))]};
  return problem;
}

/// `problem_with_columns` with alike layers between the first and the last.
inline Problem with_blocks(std::uint32_t seed, int most_layers = 6) {
  Problem problem = problem_with_columns(seed);
  Random random(seed);
  Profile& profile = problem.profile;
  const int layers = random.between(4, most_layers);
  profile.model.ties.clear();
  profile.model.edges.clear();
  profile.model.layers.resize(static_cast<std::size_t>(layers));
  for (int layer = 0; layer < layers; ++layer) {
    profile.model.layers[static_cast<std::size_t>(layer)].name = "l" + std::to_string(layer);
    if (layer > 0) profile.model.edges.push_back({layer - 1, layer});
  }
  for (ProfileEntry& entry : profile.entries) {
    LayerCost first = random_cost(random);
    // As an embedding, at times: nothing goes further back.
    if (seed % 4 == 1) first.backward_input = Duration{0};
    const LayerCost block = random_cost(random), last = random_cost(random);
    entry.layers.assign(static_cast<std::size_t>(layers), block);
    entry.layers.front() = first;
    entry.layers.front().output = block.output;
    entry.layers.back() = last;
  }
  return problem;
}

/// Every layout of one replica per device, with every choice of recomputation.
template <class Visit>
void for_each_layout(const Space& space, const Setting& setting, const Visit& visit) {
  const int stages = *setting.depth * setting.schedule.virtual_stages;
  Layout layout;
  layout.replicas.assign(static_cast<std::size_t>(*setting.depth), 1);
  const std::function<void()> extend = [&] {
    const int stage = static_cast<int>(layout.recompute.size());
    const int first = stage == 0 ? 0 : layout.cuts.back();
    if (stage == stages) return visit(layout);
    if (stage == 0) layout.cuts = {0};
    for (int end = stage + 1 == stages ? space.layers() : first + 1; end <= space.layers(); ++end) {
      if (!space.allows(stage, {first, end})) continue;
      for (const Recompute recompute : space.problem().recompute) {
        layout.cuts.push_back(end);
        layout.recompute.push_back(recompute);
        extend();
        layout.recompute.pop_back();
        layout.cuts.pop_back();
      }
    }
  };
  extend();
}

/// Every setting of columns that the schedule does not refuse, with its order.
template <class Visit>
void for_each_columns(const Space& space, const Visit& visit) {
  for (const Setting& base : space.settings()) {
    for (const Setting& setting : space.columns(base)) {
      FastClock clock(space, setting);
      const std::vector<int> replicas(static_cast<std::size_t>(*setting.depth), 1);
      const TimedOrder* order = clock.order_for(replicas);
      if (order != nullptr) visit(setting, clock, *order);
    }
  }
}

}  // namespace stagecraft::tests
