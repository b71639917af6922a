#include "planner/timing/fast_clock.hpp"

#include <array>

#include "planner/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/planner/random_layouts.hpp"

namespace stagecraft {
namespace {

using namespace tests;

/// Whole stages only: which of them recompute is any.
Layout random_whole_stages(Random& random, const Space& space, const Setting& setting,
                           const std::vector<int>& replicas) {
  Layout layout{.replicas = replicas, .cuts = {}, .recompute = {}};
  const int stages = layout.pipeline_devices() * setting.schedule.virtual_stages;
  layout.cuts = random_cuts(random, space.layers(), stages);
  for (int s = 0; s < stages; ++s)
    layout.recompute.push_back(random.chance(60) ? Recompute::none : Recompute::full);
  return layout;
}

TEST_CASE("where backwards are split, the fast clock knows when tied stages have their turn",
          "[fast_clock][minutes]") {
  int tied = 0;
  for (std::uint32_t seed = 0; seed < 4000; ++seed) {
    Random random(seed);
    Problem problem = random_problem(seed + 500, {16, 6});
    constexpr std::array shardings{Sharding::none, Sharding::none, Sharding::zero1, Sharding::zero2,
                                   Sharding::zero3};
    problem.optimizer.sharding = shardings[static_cast<std::size_t>(random.between(0, 4))];
    problem.schedules = {{.name = "zb-h1"},
                         {.name = "zb-h2"},
                         {.name = "zb-v", .virtual_stages = 2},
                         {.name = "interleaved-zb", .virtual_stages = 2},
                         {.name = "interleaved-zb", .virtual_stages = 3}};
    // Sums as long as passes, so that who comes first shows.
    for (ProfileEntry& entry : problem.profile.entries) {
      for (LayerCost& cost : entry.layers) cost.gradients *= random.between(1, 400);
    }
    const auto layers = static_cast<int>(problem.profile.model.layers.size());
    problem.profile.model.ties.clear();
    if (layers > 2) {
      const int owner = random.chance(70) ? 0 : random.between(0, layers - 2);
      problem.profile.model.ties.push_back(
          {owner, random.chance(70) ? layers - 1 : random.between(owner + 1, layers - 1), 40'000});
    }
    const Space space(problem);
    for (const Setting& setting : space.settings()) {
      FastClock clock(space, setting);
      const std::vector<int> replicas = random_replicas(random, space, setting);
      if (replicas.empty() || clock.order_for(replicas) == nullptr) continue;
      const Layout layout = random_whole_stages(random, space, setting, replicas);
      const Candidate candidate = space.evaluate("", space.plan(setting, layout));
      INFO("seed " << seed << "\n" << write_plan(candidate.plan) << candidate.rejected);
      REQUIRE(candidate.prediction);
      const Time step = candidate.prediction->step.count();
      REQUIRE(clock.step(layout) <= step);
      // Replicas that take turns, and collections behind updates, have turns that it does not know.
      if (setting.replicas != ReplicaPolicy::split) continue;
      if (problem.optimizer.sharding == Sharding::none) REQUIRE(clock.step(layout) == step);
      tied += problem.profile.model.ties.empty() ? 0 : 1;
    }
  }
  CHECK(tied > 300);
}

}  // namespace
}  // namespace stagecraft
