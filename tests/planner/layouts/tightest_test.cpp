#include "planner/layouts/tightest.hpp"

#include <limits>

#include "planner/space/schedule_choices.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

constexpr Bytes any = std::numeric_limits<Bytes>::max();

Problem with_limits(std::uint32_t seed, CaseSize size) {
  Problem problem = random_problem(seed, size);
  DeviceKind& kind = problem.cluster.kinds.front();
  kind.memory_unlimited = false;
  kind.memory = 10'000;
  problem.schedules = all_schedule_choices();
  return problem;
}

/// The least of all cuts and recomputations.
Bytes least_by_listing(FastClock& clock, const Space& space, const Setting& setting, Layout& layout,
                       int stages) {
  if (layout.stages() == stages) {
    if (layout.cuts.back() != space.layers()) return any;
    Bytes least = any;
    for (unsigned way = 0; way < 1u << static_cast<unsigned>(stages); ++way) {
      bool is_allowed = true;
      layout.recompute.clear();
      for (int stage = 0; stage < stages; ++stage) {
        layout.recompute.push_back((way >> stage) % 2 == 1 ? Recompute::full : Recompute::none);
        is_allowed = is_allowed && space.allows(layout.recompute.back());
      }
      if (!is_allowed) continue;
      Bytes over = std::numeric_limits<Bytes>::min();
      for (int device = 0; device < layout.pipeline_devices(); ++device)
        over = std::max(over, clock.bytes_over(layout, device));
      least = std::min(least, over);
    }
    return least;
  }
  Bytes least = any;
  const int first = layout.cuts.back(), stage = layout.stages();
  for (int end = first + 1; end <= space.layers(); ++end) {
    if (!space.allows(stage, {first, end})) continue;
    layout.cuts.push_back(end);
    least = std::min(least, least_by_listing(clock, space, setting, layout, stages));
    layout.cuts.pop_back();
  }
  return least;
}

}  // namespace

TEST_CASE("no layout needs less memory than the tightest", "[tightest][seconds]") {
  int cases = 0, several = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    Problem problem = with_limits(seed, {8, 3});
    const auto layers = static_cast<int>(problem.profile.model.layers.size());
    if (seed % 4 == 3 && layers > 3) problem.fixed = {{1, {layers - 3, layers - 1}}};
    const Space space(problem);
    for (const Setting& setting : space.settings()) {
      FastClock clock(space, setting);
      for (const std::vector<int>& replicas : ways_to_replicate(space, setting)) {
        Effort effort{.left = 100'000'000};
        const auto found = tightest(clock, space, setting, replicas, any, effort);
        if (!found) continue;
        INFO("seed " << seed << ", " << setting.schedule.name << " of "
                     << setting.schedule.virtual_stages << " on " << replicas.size());
        CHECK(is_allowed(space, setting, found->layout));
        CHECK(least_over(space, setting, replicas) <= found->over);
        Layout layout{.replicas = replicas, .cuts = {0}, .recompute = {}};
        const int stages = found->layout.stages();
        const Bytes least = least_by_listing(clock, space, setting, layout, stages);
        CHECK(found->over == least);
        // Nothing is below it, and it is what is found if little more is asked for.
        Effort again{.left = 100'000'000}, once_more = again;
        CHECK_FALSE(tightest(clock, space, setting, replicas, least, again));
        const auto same = tightest(clock, space, setting, replicas, least + 1, once_more);
        REQUIRE(same);
        CHECK(same->over == least);
        ++cases;
        several += setting.schedule.virtual_stages > 1 && replicas.size() > 1 ? 1 : 0;
      }
    }
  }
  CHECK(cases > 300);
  CHECK(several > 50);
}

TEST_CASE("stages before a fixed one end where it begins", "[tightest]") {
  // More layers than can be chosen one by one, and more memory for the first stage than it may use.
  constexpr int layers = 600;
  LayerCost cost = layer_cost(Duration{10}, Duration{20});
  cost.parameters = 1000;
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(layers, cost)),
                               cluster_of({{4, {}}}, 1), 8, {1});
  problem.fixed = {{1, {3, 5}}};
  problem.recompute = {Recompute::full};
  const Space space(problem);
  const Setting& setting = space.settings().front();
  FastClock clock(space, setting);
  Effort effort{.left = 10'000'000};
  const auto found = tightest(clock, space, setting, {1, 1, 1, 1}, any, effort);
  REQUIRE(found);
  CHECK(found->layout.cuts == std::vector<int>{0, 3, 5, 303, 600});
}

TEST_CASE("stages of very many alike layers are as long as each other where that is tightest",
          "[tightest]") {
  // With as many in flight as there are stages behind, the first of four has the fewest layers.
  constexpr int layers = 3000;
  LayerCost cost = layer_cost(Duration{10}, Duration{20});
  cost.parameters = 1000;
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(layers, cost)),
                               cluster_of({{3, {}}}, 1), 8, {1});
  const Space space(problem);
  const Setting& setting = space.settings().front();
  FastClock clock(space, setting);
  Effort effort{.left = 10'000'000};
  const auto found = tightest(clock, space, setting, {1, 1, 1}, any, effort);
  REQUIRE(found);
  CHECK(found->layout.cuts == std::vector<int>{0, 1000, 2000, 3000});
}
