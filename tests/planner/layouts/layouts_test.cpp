#include "planner/layouts/layouts.hpp"

#include <algorithm>
#include <set>

#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// So many layers on two devices, of which the first half take twice as long.
Problem long_chain(int layers) {
  std::vector<LayerCost> costs(static_cast<std::size_t>(layers), layer_cost(10ns, 20ns));
  for (int i = 0; i < layers / 2; ++i) costs[static_cast<std::size_t>(i)] = layer_cost(20ns, 40ns);
  Problem problem = problem_of(profile_of(std::move(costs)), cluster_of({{2, {}}}), 8, {1});
  problem.straight = true;
  return problem;
}

Layout even_layout(int layers) {
  return {.replicas = {1, 1},
          .cuts = even_cuts(layers, 2),
          .recompute = std::vector<Recompute>(2, Recompute::none)};
}

}  // namespace

TEST_CASE("stages of very many layers are made equal in few steps", "[layouts]") {
  constexpr int layers = 4096;
  const Problem problem = long_chain(layers);
  const Space space(problem);
  const Setting& setting = space.settings().front();
  FastClock clock(space, setting);
  // One layer at a time takes a thousand tries, there and back, to move the 512 that are wrong.
  const std::int64_t steps_per_try = 100 + 4 * 2 * setting.microbatches;
  Effort effort{.left = 200 * steps_per_try};
  const Layout layout = improve(clock, space, setting, even_layout(layers), effort);
  const Time equal = (8 + 1) * (layers / 2 * 90) / 2;
  CHECK(clock.step(layout) <= equal + equal / 100);
}

TEST_CASE("stages of two sizes have all layers, the larger ones side by side", "[layouts]") {
  const int layers = GENERATE(6, 9, 14, 18), depth = GENERATE(2, 4), turns = GENERATE(1, 2);
  Problem problem = long_chain(layers);
  problem.cluster = cluster_of({{depth, {}}});
  problem.use_fewer_devices = false;
  problem.schedules = {{.name = turns > 1 ? "interleaved" : "1f1b", .virtual_stages = turns}};
  const Space space(problem);
  for (const Setting& setting : space.columns(space.settings().front())) {
    if (*setting.depth != depth) continue;
    const int stages = depth * turns, alike = layers - 2;
    const std::vector<Layout> layouts = layouts_of_two_sizes(space, setting, depth);
    const int begins = alike % stages == 0 ? 1 : stages - alike % stages + 1;
    CHECK(std::ssize(layouts) == (alike < stages ? 0 : begins));
    std::set<std::vector<int>> all;
    for (const Layout& layout : layouts) {
      all.insert(layout.cuts);
      REQUIRE(layout.stages() == stages);
      CHECK(layout.cuts.back() == layers);
      // Without the ends.
      std::vector<int> sizes;
      for (int s = 0; s < stages; ++s) {
        const auto stage = static_cast<std::size_t>(s);
        const int ends = (s == 0 ? 1 : 0) + (s + 1 == stages ? 1 : 0);
        sizes.push_back(layout.cuts[stage + 1] - layout.cuts[stage] - ends);
      }
      const auto larger = std::ranges::find(sizes, alike / stages + 1);
      const auto behind = std::find(larger, sizes.end(), alike / stages);
      CHECK(behind - larger == alike % stages);
      CHECK(std::ranges::count(sizes, alike / stages) == stages - alike % stages);
    }
    CHECK(all.size() == layouts.size());
  }
}

TEST_CASE("nothing is improved once a stop is requested", "[layouts]") {
  const Problem problem = long_chain(64);
  const Space space(problem);
  const Setting& setting = space.settings().front();
  FastClock clock(space, setting);
  std::stop_source stop;
  Effort effort{.left = 1'000'000, .stop = stop.get_token()};
  CHECK(improve(clock, space, setting, even_layout(64), effort).cuts != even_layout(64).cuts);
  stop.request_stop();
  CHECK(improve(clock, space, setting, even_layout(64), effort).cuts == even_layout(64).cuts);
}
