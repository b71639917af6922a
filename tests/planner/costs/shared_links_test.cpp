#include "planner/costs/shared_links.hpp"

#include <algorithm>

#include "planner/costs/predict.hpp"
#include "profiles/error.hpp"
#include "simulator/engines/events.hpp"
#include "simulator/schedules/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Two stages of two replicas each, a node for each stage: two messages of 1 MB leave a node at
/// once.
struct TwoNodes {
  Program program = lower(gpipe({.devices = 2, .microbatches = 1}),
                          {.replicas = {{0, 1}, {2, 3}}, .rows = 2, .boundary = {2'000'000, 0}});
  Cluster cluster =
      cluster_of({{2, link_of(0ns, 1'000'000'000)}, {2, link_of(0ns, 9'000'000'000)}});
  Costs costs = uniform(program, {.forward = 10ms, .backward = 20ms});

  TwoNodes() {
    for (ChannelCosts& channel : costs.channels) channel.occupancy = 1ms;
  }

  Duration step(const LinkSharing& sharing) const {
    const Network network = shared_network(program, costs, {0, 1, 2, 3}, cluster, sharing);
    return step_time(simulate_events(program, costs, {.network = network}));
  }
};

}  // namespace

TEST_CASE("two messages that leave a node together take twice as long, or take turns",
          "[shared-links]") {
  const TwoNodes two;
  CHECK(step_time(simulate(two.program, two.costs)) == 62ms);
  CHECK(two.step({.sharing = Sharing::fair}) == 64ms);
  CHECK(two.step({.sharing = Sharing::fifo}) == 63ms);
  CHECK(two.step({.sharing = Sharing::fair, .devices_per_link = 1}) == 62ms);
  CHECK(two.step({.sharing = Sharing::fair, .devices_per_link = 8}) == 64ms);
  CHECK_THROWS_WITH(two.step({.sharing = Sharing::fair, .devices_per_link = 0}),
                    "shared links: at least one device is behind a link, not 0");
}

TEST_CASE("a pair with a link of its own shares it with nobody", "[shared-links]") {
  TwoNodes two;
  two.cluster.overrides = {{0, 2, link_of(0ns, 1'000'000'000)},
                           {2, 0, link_of(0ns, 1'000'000'000)}};
  CHECK(two.step({.sharing = Sharing::fair}) == 62ms);
}

TEST_CASE("a measured hand-over and an unlimited link are not shared", "[shared-links]") {
  TwoNodes two;
  two.costs.channels[0].occupancy = 3ms;  // not what 1 GB/s says
  const Network network =
      shared_network(two.program, two.costs, {0, 1, 2, 3}, two.cluster, {.sharing = Sharing::fair});
  CHECK(network.channels[0].links.empty());
  CHECK(network.channels[1].links.size() == 2);
  two.cluster.levels[0].link = {};
  for (ChannelCosts& channel : two.costs.channels) channel.occupancy = 0ms;
  const Network unlimited = shared_network(two.program, two.costs, {0, 1, 2, 3}, two.cluster, {});
  for (const Route& route : unlimited.channels) CHECK(route.links.empty());
}

TEST_CASE("alone everything takes its time on shared links, and sharing never helps",
          "[shared-links][seconds]") {
  int slower = 0;
  for (std::uint32_t seed = 0; seed < 25; ++seed) {
    const Problem problem = random_problem(seed, {.layers = 5, .devices = 4});
    const SearchResult result = find_strategy("exact").search(problem, {});
    if (result.plans.empty()) continue;
    const Plan& plan = result.plans.front().plan;
    const Compiled compiled = compile(plan, problem.profile, problem.cluster);
    const Network network = shared_network(compiled.program, compiled.costs, compiled.devices,
                                           problem.cluster, {.sharing = Sharing::fair});
    const auto alone = [&](const Route& route) {
      Bandwidth slowest = Bandwidth::unlimited();
      for (const int link : route.links) {
        slowest = std::min(slowest, network.links[static_cast<std::size_t>(link)]);
      }
      return transfer_time(route.bytes, slowest);
    };
    for (std::size_t i = 0; i < network.channels.size(); ++i) {
      CHECK(alone(network.channels[i]) == compiled.costs.channels[i].occupancy);
    }
    for (std::size_t i = 0; i < network.groups.size(); ++i) {
      const Duration time = alone(network.groups[i]);  // whole bytes: less by that of one at most
      CHECK(time <= compiled.costs.groups[i]);
      CHECK(time + 1us > compiled.costs.groups[i]);
    }
    const Duration shared =
        step_time(simulate_events(compiled.program, compiled.costs, {.network = network}));
    const Duration free = step_time(simulate(compiled.program, compiled.costs));
    CHECK(shared + 1us * 2 * static_cast<int>(network.groups.size()) >= free);
    slower += shared > free ? 1 : 0;
  }
  CHECK(slower > 0);
}
