#include "planner/layouts/annealing.hpp"

#include <optional>
#include <string>

#include "planner/layouts/recompute_ways.hpp"
#include "profiles/profile.hpp"
#include "tests/catch.hpp"
#include "tests/planner/columns_cases.hpp"
#include "tests/watched.hpp"

namespace stagecraft {
namespace {

using namespace tests;

constexpr double hot = 0.02;

Effort some_effort() {
  return {.left = 2'000'000};
}

TEST_CASE("annealing ends with a layout that is allowed, fits, and is no slower",
          "[annealing][seconds]") {
  int better = 0;
  for (std::uint32_t seed = 0; seed < (is_watched ? 40 : 150); ++seed) {
    const Problem problem = with_blocks(seed, 12);
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock& clock, const TimedOrder&) {
      const std::vector<int> replicas(static_cast<std::size_t>(*setting.depth), 1);
      const Layout start = balanced(space, setting, replicas);
      if (!is_allowed(space, setting, start) || !may_fit(clock, start)) return;
      if (!space.allows(Recompute::none)) return;
      Effort effort = some_effort(), same = some_effort();
      const Layout layout = anneal(clock, space, setting, start, hot, 1, effort);
      INFO("seed " << seed);
      CHECK(effort.is_spent());
      CHECK(is_allowed(space, setting, layout));
      CHECK(may_fit(clock, layout));
      CHECK(clock.step(layout) <= clock.step(start));
      const Layout again = anneal(clock, space, setting, start, hot, 1, same);
      CHECK(again.cuts == layout.cuts);
      CHECK(again.recompute == layout.recompute);
      better += clock.step(layout) < clock.step(start) ? 1 : 0;
    });
  }
  CHECK(better > (is_watched ? 13 : 50));
}

/// So many nodes of eight H100, each one stage of eight peers, with as many microbatches.
Problem one_pipeline(const std::string& model, int nodes, const ScheduleChoice& schedule) {
  Problem problem;
  problem.model_name = model;
  problem.profile = load_profile(problem.model_name).profile;
  problem.cluster = parse_cluster(std::to_string(nodes) + "x8xh100@400Gb/s");
  problem.precision = Precision::bfloat16;
  problem.sequence = problem.profile.model.sequence;
  problem.global_batch = nodes;
  problem.microbatches = {1};
  problem.tensor_parallel = {8};
  problem.straight = true;
  problem.schedules = {schedule};
  return problem;
}

TEST_CASE(
    "annealing finds stages that grow towards the middle, where moving one layer at a time "
    "finds nothing",
    "[annealing][seconds]") {
  const Problem problem =
      one_pipeline("gpt3-175b", 16, {.name = "interleaved-zb", .virtual_stages = 4});
  const Space space(problem);
  const Setting& setting = space.settings().front();
  FastClock clock(space, setting);
  const Layout start = balanced(space, setting, std::vector<int>(16, 1));
  REQUIRE(may_fit(clock, start));
  Effort enough{.left = 200'000'000}, effort{.left = 40'000'000};
  const Layout improved = improve(clock, space, setting, start, enough);
  CHECK_FALSE(enough.is_spent());
  const Layout annealed = anneal(clock, space, setting, improved, hot, 1, effort);
  CHECK(clock.step(annealed) * 100 < clock.step(improved) * 98);
}

TEST_CASE(
    "from stages of two sizes annealing comes to shapes that it seldom finds from balanced ones",
    "[annealing][seconds]") {
  const Problem problem =
      one_pipeline("gpt3-175b", 16, {.name = "interleaved-zb", .virtual_stages = 3});
  const Space space(problem);
  const Setting& setting = space.settings().front();
  FastClock clock(space, setting);
  const auto found = [&](const Layout& start, double heat) {
    Effort effort{.left = 60'000'000};
    return clock.step(anneal(clock, space, setting, start, heat, 1, effort));
  };
  const Layout start = balanced(space, setting, std::vector<int>(16, 1));
  Time least = never;
  std::optional<Layout> flat;
  for (const Layout& layout : layouts_of_two_sizes(space, setting, 16)) {
    const auto fitting = recomputed_to_fit(clock, space, setting, layout);
    if (!fitting || clock.step(*fitting) >= least) continue;
    flat = fitting;
    least = clock.step(*fitting);
  }
  REQUIRE(flat);
  constexpr double warm = 0.003;
  const Time from_flat = found(*flat, warm);
  CHECK(from_flat < least);
  CHECK(from_flat * 1000 < found(start, hot) * 995);
}

}  // namespace
}  // namespace stagecraft
