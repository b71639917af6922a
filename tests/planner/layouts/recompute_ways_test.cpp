#include "planner/layouts/recompute_ways.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "planner/layouts/annealing.hpp"
#include "planner/layouts/layouts.hpp"
#include "planner/strategies.hpp"
#include "profiles/profile.hpp"
#include "tests/catch.hpp"
#include "tests/planner/columns_cases.hpp"

namespace stagecraft {
namespace {

using namespace tests;

/// Whether the stages of all other devices recompute as before.
bool is_same_elsewhere(const Setting& setting, int device, const Layout& before,
                       const Layout& after) {
  for (int s = 0; s < before.stages(); ++s) {
    const auto place = static_cast<std::size_t>(s);
    if (setting.device_of(s, before.pipeline_devices()) == device) continue;
    if (before.recompute[place] != after.recompute[place]) return false;
  }
  return before.cuts == after.cuts;
}

TEST_CASE("a device recomputes in the way of the least step that there is", "[recompute_ways]") {
  int chosen = 0, none = 0, recomputing = 0;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    const Problem problem = with_blocks(seed, 8);
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock& clock, const TimedOrder&) {
      std::optional<Layout> before;
      for_each_layout(space, setting, [&](const Layout& layout) {
        if (!before) before = layout;
      });
      if (!before) return;
      const int device = static_cast<int>(seed) % *setting.depth;
      Time least = never;
      for_each_layout(space, setting, [&](const Layout& layout) {
        if (!is_same_elsewhere(setting, device, *before, layout)) return;
        if (clock.may_fit(layout, device)) least = std::min(least, clock.step(layout));
      });
      INFO("seed " << seed);
      Layout after = *before;
      Effort effort{.left = 1'000'000};
      if (!recompute_for_step(clock, space, setting, device, after, effort)) {
        CHECK(least == never);
        CHECK(after.recompute == before->recompute);
        ++none;
        return;
      }
      CHECK(is_same_elsewhere(setting, device, *before, after));
      CHECK(clock.may_fit(after, device));
      CHECK(clock.step(after) == least);
      CHECK(effort.left < 1'000'000);
      ++chosen;
      recomputing += std::ranges::count(after.recompute, Recompute::full) > 0 ? 1 : 0;
    });
  }
  CHECK(chosen > 100);
  CHECK(none > 10);
  CHECK(recomputing > 5);
}

TEST_CASE("a repair leaves devices that fit as they are", "[recompute_ways][seconds]") {
  int repairs = 0;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    const Problem problem = with_blocks(seed, 8);
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock& clock, const TimedOrder&) {
      for_each_layout(space, setting, [&](const Layout& before) {
        if (repairs > 2000 || may_fit(clock, before)) return;
        Effort effort{.left = 1'000'000};
        const auto after = repaired(clock, space, setting, before, effort);
        if (!after) return;
        ++repairs;
        CHECK(may_fit(clock, *after));
        for (int s = 0; s < before.stages(); ++s) {
          const auto place = static_cast<std::size_t>(s);
          if (clock.may_fit(before, setting.device_of(s, before.pipeline_devices())))
            CHECK(after->recompute[place] == before.recompute[place]);
        }
      });
    });
  }
  CHECK(repairs > 100);
}

/// 32 groups of eight A100, some of which hold one block of four too many.
Problem short_of_memory() {
  Problem problem;
  problem.model_name = "llama3-405b";
  problem.profile = load_profile(problem.model_name).profile;
  problem.cluster = parse_cluster("32x8xa100-80gb@400Gb/s");
  problem.precision = Precision::bfloat16;
  problem.sequence = problem.profile.model.sequence;
  problem.global_batch = 32;
  problem.microbatches = {1};
  problem.tensor_parallel = {8};
  problem.parallelism.sequence = true;
  problem.schedules = {{.name = "interleaved-zb", .virtual_stages = 4}};
  return problem;
}

TEST_CASE("which stages make room decides over the step of a large pipeline",
          "[recompute_ways][seconds]") {
  const Problem problem = short_of_memory();
  const Space space(problem);
  const Setting& setting = space.settings().front();
  FastClock clock(space, setting);
  const Layout start = balanced(space, setting, std::vector<int>(32, 1));
  const auto shortest = recomputed_to_fit(clock, space, setting, start);
  REQUIRE(shortest);
  Layout otherwise = *shortest;
  Effort effort{.left = 400'000'000};
  for (int device = 0; device < 32; ++device)
    REQUIRE(recompute_for_step(clock, space, setting, device, otherwise, effort));
  CHECK(may_fit(clock, otherwise));
  CHECK(clock.step(otherwise) * 100 < clock.step(*shortest) * 98);
  Effort some{.left = 30'000'000};
  const Layout annealed = anneal(clock, space, setting, *shortest, 0.003, 1, some);
  CHECK(clock.step(annealed) * 100 < clock.step(*shortest) * 98);
}

TEST_CASE("a search finds the plan whose stages make room in the best way",
          "[recompute_ways][minutes]") {
  const Problem problem = short_of_memory();
  const SearchResult result = search_exact(problem, {.threads = 1});
  REQUIRE_FALSE(result.plans.empty());
  CHECK(result.plans.front().prediction->fits);
  CHECK(result.gap < 0.005);
}

}  // namespace
}  // namespace stagecraft
