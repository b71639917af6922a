#include "planner/block_packing.hpp"

#include "planner/layouts.hpp"
#include "tests/catch.hpp"
#include "tests/planner/columns_cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// The same problem with alike layers between the first and the last.
Problem with_blocks(std::uint32_t seed) {
  Problem problem = problem_with_columns(seed);
  Random random(seed);
  Profile& profile = problem.profile;
  const int layers = random.between(4, 6);
  profile.model.ties.clear();
  profile.model.edges.clear();
  profile.model.layers.resize(static_cast<std::size_t>(layers));
  for (int layer = 0; layer < layers; ++layer) {
    profile.model.layers[static_cast<std::size_t>(layer)].name = "l" + std::to_string(layer);
    if (layer > 0) profile.model.edges.push_back({layer - 1, layer});
  }
  for (ProfileEntry& entry : profile.entries) {
    const LayerCost first = random_cost(random), block = random_cost(random),
                    last = random_cost(random);
    entry.layers.assign(static_cast<std::size_t>(layers), block);
    entry.layers.front() = first;
    entry.layers.front().output = block.output;
    entry.layers.back() = last;
  }
  return problem;
}

}  // namespace

TEST_CASE("no layout that fits is faster than whole blocks allow", "[block_packing]") {
  int cases = 0, tight = 0, layouts = 0, limited = 0;
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    INFO("seed " << seed);
    const Problem problem = with_blocks(seed);
    const Space space(problem);
    for (const Setting& base : space.settings()) {
      if (base.replicas != ReplicaPolicy::split) continue;
      for (const Setting& setting : space.columns(base)) {
        REQUIRE(BlockPacking::applies(space, setting));
        FastClock clock(space, setting);
        const std::vector<int> replicas(static_cast<std::size_t>(*setting.depth), 1);
        const TimedOrder* order = clock.order_for(replicas);
        if (order == nullptr) continue;
        Time best = never;
        std::vector<Layout> fitting;
        for_each_layout(space, setting, [&](const Layout& layout) {
          if (!may_fit(clock, layout)) return;
          best = std::min(best, clock.step(layout));
          fitting.push_back(layout);
        });
        const Time limit = best == never ? Time{10'000'000} : best + best / 3;
        const BlockPacking packing(space, setting, *order, limit);
        CHECK(packing.bound() <= best);
        ++cases;
        limited += best == never && packing.bound() > limit ? 1 : 0;
        tight += best < never && packing.bound() >= best * 9 / 10 ? 1 : 0;
        const std::vector<int> most = packing.most_layers();
        for (const Layout& layout : fitting) {
          if (most.empty() || clock.step(layout) > limit) continue;
          std::vector<int> layers(most.size());
          for (int s = 0; s < layout.stages(); ++s) {
            const auto device = static_cast<std::size_t>(setting.device_of(s, *setting.depth));
            const auto cut = static_cast<std::size_t>(s);
            layers[device] += layout.cuts[cut + 1] - layout.cuts[cut];
          }
          for (std::size_t d = 0; d < most.size(); ++d) CHECK(layers[d] <= most[d]);
        }
        if (!packing.layout() || !is_allowed(space, setting, *packing.layout())) continue;
        ++layouts;
        CHECK(packing.layout()->cuts.back() == space.layers());
        CHECK(may_fit(clock, *packing.layout()));
      }
    }
  }
  CHECK(cases > 300);
  CHECK(tight > 30);
  CHECK(limited > 10);
  CHECK(layouts > 100);
}

TEST_CASE("a layer that is unlike the others is no block", "[block_packing]") {
  std::vector<LayerCost> costs(
      6, layer_cost(std::chrono::microseconds(10), std::chrono::microseconds(20)));
  costs[3].parameters = 8;
  Problem problem = problem_of(profile_of(costs), cluster_of({{2, {}}}), 4, {1});
  const Space space(problem);
  const Setting setting = space.columns(space.settings().front()).back();
  CHECK_FALSE(BlockPacking::applies(space, setting));
  problem.profile.entries.front().layers[3].parameters = 0;
  const Space alike(problem);
  CHECK(BlockPacking::applies(alike, setting));
}
