#include "planner/layouts/annealing.hpp"

#include "profiles/profile.hpp"
#include "tests/catch.hpp"
#include "tests/planner/columns_cases.hpp"

namespace stagecraft {
namespace {

using namespace tests;

Effort some_effort() {
  return {.left = 2'000'000};
}

TEST_CASE("annealing ends with a layout that is allowed, fits, and is no slower", "[annealing]") {
  int better = 0;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    const Problem problem = with_blocks(seed, 12);
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock& clock, const TimedOrder&) {
      const std::vector<int> replicas(static_cast<std::size_t>(*setting.depth), 1);
      const Layout start = balanced(space, setting, replicas);
      if (!is_allowed(space, setting, start) || !may_fit(clock, start)) return;
      if (!space.allows(Recompute::none)) return;
      Effort effort = some_effort(), same = some_effort();
      const Layout layout = anneal(clock, space, setting, start, effort);
      INFO("seed " << seed);
      CHECK(effort.is_spent());
      CHECK(is_allowed(space, setting, layout));
      CHECK(may_fit(clock, layout));
      CHECK(clock.step(layout) <= clock.step(start));
      const Layout again = anneal(clock, space, setting, start, same);
      CHECK(again.cuts == layout.cuts);
      CHECK(again.recompute == layout.recompute);
      better += clock.step(layout) < clock.step(start) ? 1 : 0;
    });
  }
  CHECK(better > 50);
}

TEST_CASE(
    "annealing finds stages that grow towards the middle, where moving one layer at a time "
    "finds nothing",
    "[annealing]") {
  Problem problem;
  problem.model_name = "gpt3-175b";
  problem.profile = load_profile(problem.model_name).profile;
  problem.cluster = parse_cluster("16x8xh100@400Gb/s");
  problem.precision = Precision::bfloat16;
  problem.sequence = problem.profile.model.sequence;
  problem.global_batch = 16;
  problem.microbatches = {1};
  problem.tensor_parallel = {8};
  problem.straight = true;
  problem.schedules = {{.name = "interleaved-zb", .virtual_stages = 4}};
  const Space space(problem);
  const Setting& setting = space.settings().front();
  FastClock clock(space, setting);
  const Layout start = balanced(space, setting, std::vector<int>(16, 1));
  REQUIRE(may_fit(clock, start));
  Effort enough{.left = 200'000'000}, effort{.left = 40'000'000};
  const Layout improved = improve(clock, space, setting, start, enough);
  CHECK_FALSE(enough.is_spent());
  const Layout annealed = anneal(clock, space, setting, improved, effort);
  CHECK(clock.step(annealed) * 100 < clock.step(improved) * 98);
}

}  // namespace
}  // namespace stagecraft
