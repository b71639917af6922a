#include "planner/relaxations/block_packing.hpp"

#include "planner/layouts/layouts.hpp"
#include "tests/catch.hpp"
#include "tests/planner/columns_cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

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

namespace {

/// Whether some choice of the device has the layout's blocks and keeps all that the layout keeps.
bool has_choice(const BlockPacking& packing, const std::vector<BlockChoice>& choices,
                const Layout& layout, int device) {
  return std::any_of(choices.begin(), choices.end(), [&](const BlockChoice& choice) {
    const std::vector<int>& stages = packing.stages_of(device);
    for (std::size_t t = 0; t < stages.size(); ++t) {
      const auto s = static_cast<std::size_t>(stages[t]);
      const int ends = (s == 0 ? 1 : 0) + (stages[t] + 1 == layout.stages() ? 1 : 0);
      if (layout.cuts[s + 1] - layout.cuts[s] != choice.blocks[t] + ends) return false;
      if (choice.recompute[t] == Recompute::full && layout.recompute[s] == Recompute::none) {
        return false;
      }
    }
    return true;
  });
}

}  // namespace

TEST_CASE("every layout that fits is made of the choices of its devices", "[block_packing]") {
  int layouts = 0, listed = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    const Problem problem = with_blocks(seed);
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock& clock, const TimedOrder& order) {
      std::vector<Layout> fitting;
      Time best = never;
      for_each_layout(space, setting, [&](const Layout& layout) {
        if (!may_fit(clock, layout)) return;
        best = std::min(best, clock.step(layout));
        fitting.push_back(layout);
      });
      if (fitting.empty()) return;
      const Time limit = best + best / 3;
      const BlockPacking packing(space, setting, order, limit);
      const auto choices = packing.all_choices();
      if (!choices) return;
      ++listed;
      for (const Layout& layout : fitting) {
        if (clock.step(layout) > limit) continue;
        ++layouts;
        for (int device = 0; device < *setting.depth; ++device) {
          const auto& of_device = (*choices)[static_cast<std::size_t>(device)];
          CHECK((order.places_recompute || has_choice(packing, of_device, layout, device)));
        }
      }
    });
  }
  CHECK(layouts > 500);
  CHECK(listed > 100);
}
