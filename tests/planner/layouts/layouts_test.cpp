#include "planner/layouts/layouts.hpp"

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
