#include "planner/space/device_orders.hpp"

#include <algorithm>

#include "planner/analysis/certificate.hpp"
#include "planner/strategies.hpp"
#include "profiles/collectives.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

using Orders = std::vector<std::vector<int>>;

/// Devices of these kinds behind these levels.
Cluster mixed(std::vector<Level> levels, std::vector<int> kinds) {
  Cluster cluster = cluster_of(std::move(levels));
  cluster.kinds.push_back(cluster.kinds.front());
  cluster.kinds.push_back(cluster.kinds.front());
  cluster.devices = std::move(kinds);
  return cluster;
}

}  // namespace

TEST_CASE("kinds of device change places as parts of the outermost level") {
  CHECK(other_device_orders(mixed({{4, {}}}, {0, 0, 0, 0}), 9).empty());
  CHECK(other_device_orders(mixed({{4, {}}}, {0, 0, 1, 1}), 9) == Orders{{2, 3, 0, 1}});
  CHECK(other_device_orders(mixed({{4, {}}}, {0, 1, 0, 1}), 9) ==
        Orders{{0, 2, 1, 3}, {1, 3, 0, 2}});
  // Nodes stay whole: the two first are alike.
  CHECK(other_device_orders(mixed({{3, {}}, {2, {}}}, {0, 1, 0, 1, 1, 0}), 9) ==
        Orders{{4, 5, 0, 1, 2, 3}});
  const Cluster three = mixed({{3, {}}}, {0, 1, 2});
  CHECK(other_device_orders(three, 9).size() == 5);
  CHECK(other_device_orders(three, 2) == Orders{{0, 2, 1}, {1, 0, 2}});
}

TEST_CASE("an order of devices keeps every link and kind") {
  Cluster cluster = mixed({{3, link_of(5us, 1'000'000'000)}, {2, link_of(1us, 9'000'000'000)}},
                          {0, 1, 0, 1, 2, 0});
  cluster.overrides = {{1, 4, link_of(7us, 3'000'000'000)}};
  for (const std::vector<int>& order : other_device_orders(cluster, 9)) {
    const Cluster other = in_device_order(cluster, order);
    for (int a = 0; a < 6; ++a) {
      const int own = order[static_cast<std::size_t>(a)];
      CHECK(kind_of(other, a) == kind_of(cluster, own));
      for (int b = 0; b < 6; ++b) {
        if (a == b) continue;
        CHECK(link_between(other, a, b) ==
              link_between(cluster, own, order[static_cast<std::size_t>(b)]));
      }
    }
  }
}

TEST_CASE("all orders of devices are those that links of their own tell apart") {
  Cluster cluster = mixed({{3, link_of(5us, 1'000'000'000)}}, {0, 0, 0});
  CHECK(all_other_device_orders(cluster, 0) == Orders{});
  cluster.overrides = {{0, 1, link_of(7us, 3'000'000'000)}};
  // The link leads from one of three devices to one of two.
  const auto orders = all_other_device_orders(cluster, 5);
  REQUIRE(orders);
  CHECK(*orders == Orders{{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}});
  CHECK_FALSE(all_other_device_orders(cluster, 4));
  // The same both ways: two orders less one of each pair.
  cluster.overrides.push_back({1, 0, link_of(7us, 3'000'000'000)});
  CHECK(all_other_device_orders(cluster, 5)->size() == 2);
  cluster.overrides.back().link.latency = 8us;
  CHECK(all_other_device_orders(cluster, 5)->size() == 5);
  // Nodes stay whole: which of two, and which of its two devices.
  Cluster nodes = mixed({{2, link_of(5us, 1'000'000'000)}, {2, {}}}, {0, 0, 0, 0});
  nodes.overrides = {{0, 2, link_of(7us, 3'000'000'000)}};
  CHECK(all_other_device_orders(nodes, 9)->size() == 7);
  // More than anybody goes through.
  Cluster wide = mixed({{10, {}}}, std::vector<int>(10, 0));
  CHECK_FALSE(all_other_device_orders(wide, 1000));
}

TEST_CASE("every order is one of each that are not joined alike") {
  const Link slow = link_of(5us, 1'000'000'000), fast = link_of(1us, 9'000'000'000);
  const auto count = [](const Cluster& cluster) {
    const auto orders = every_other_device_order(cluster, {}, 1000);
    return orders ? static_cast<int>(orders->size()) + 1 : 0;
  };
  // n! by the symmetries of the nodes: n! / (nodes! (devices of a node)!^nodes).
  CHECK(count(mixed({{6, slow}}, std::vector<int>(6, 0))) == 1);
  CHECK(count(mixed({{2, slow}, {2, fast}}, std::vector<int>(4, 0))) == 3);
  CHECK(count(mixed({{2, slow}, {3, fast}}, std::vector<int>(6, 0))) == 10);
  CHECK(count(mixed({{3, slow}, {2, fast}}, std::vector<int>(6, 0))) == 15);
  CHECK(count(mixed({{2, slow}, {4, fast}}, std::vector<int>(8, 0))) == 35);
  CHECK(count(mixed({{2, slow}, {2, slow}, {2, fast}}, std::vector<int>(8, 0))) == 315);
  // Where kinds stand among the others.
  CHECK(count(mixed({{5, slow}}, {0, 0, 0, 1, 1})) == 10);
  CHECK(count(mixed({{2, slow}, {2, fast}}, {0, 0, 1, 1})) == 6);
  CHECK(count(mixed({{9, slow}}, std::vector<int>(9, 0))) == 0);
  CHECK_FALSE(every_other_device_order(mixed({{5, slow}}, {0, 0, 0, 1, 1}), {}, 8));
  // One that is left out stays so.
  CHECK(every_other_device_order(mixed({{2, slow}, {2, fast}}, {0, 0, 0, 0}), {1}, 9) ==
        Orders{{2, 0, 3, 1}, {2, 3, 0, 1}});
}

TEST_CASE("every set is one of each that are not joined alike") {
  const Link slow = link_of(5us, 1'000'000'000), fast = link_of(1us, 9'000'000'000);
  const std::vector<std::vector<int>> single{{0}, {1}, {2}, {3}};
  const Cluster flat = mixed({{4, slow}}, {0, 0, 0, 0});
  CHECK(every_set_of(flat, single, 9) == Orders{{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}});
  // Two of one kind, and any of the other: 3 x 3 numbers of each, but none of both.
  CHECK(every_set_of(mixed({{4, slow}}, {0, 1, 0, 1}), single, 99)->size() >= 8);
  CHECK_FALSE(every_set_of(mixed({{4, slow}}, {0, 1, 0, 1}), single, 7));
  // Two neighbours or not.
  const auto nested = every_set_of(mixed({{2, slow}, {2, fast}}, {0, 0, 0, 0}), single, 99);
  CHECK(std::ranges::count(*nested, 2U, &std::vector<int>::size) == 2);
  // Of peers there are fewer.
  CHECK(every_set_of(flat, {{0, 1}, {2, 3}}, 9) == Orders{{0}, {0, 1}});
  CHECK_FALSE(every_set_of(flat, Orders(9, {0}), 99));
}

TEST_CASE("in any order links and groups are those of the devices themselves") {
  Cluster cluster = mixed({{2, link_of(5us, 1'000'000'000)}, {3, link_of(1us, 9'000'000'000)}},
                          {0, 1, 0, 1, 1, 0});
  for (const bool has_own : {false, true}) {
    if (has_own) cluster.overrides = {{1, 4, link_of(7us, 3'000'000'000)}};
    std::vector<int> order{0, 1, 2, 3, 4, 5};
    while (std::next_permutation(order.begin(), order.end())) {
      const Cluster other = in_device_order(cluster, order);
      for (int a = 0; a < 6; ++a) {
        const int own = order[static_cast<std::size_t>(a)];
        REQUIRE(kind_of(other, a) == kind_of(cluster, own));
        for (int b = 0; b < 6; ++b) {
          if (a == b) continue;
          REQUIRE(link_between(other, a, b) ==
                  link_between(cluster, own, order[static_cast<std::size_t>(b)]));
        }
      }
      const std::vector<int> first{order[0], order[1], order[2], order[3]};
      REQUIRE(group_link(other, {0, 1, 2, 3}) == group_link(cluster, first));
      REQUIRE(
          collective_time(Collective::all_reduce, device_group(other, {0, 1, 2, 3}), 1'000'000) ==
          collective_time(Collective::all_reduce, device_group(cluster, first), 1'000'000));
    }
  }
}

TEST_CASE("on few devices the bound speaks of stages anywhere, on more of consecutive devices",
          "[seconds]") {
  std::vector<LayerCost> costs(3, layer_cost(100us, 200us));
  costs[1].parameters = costs[1].gradients = 4'000'000;
  Problem problem = problem_of(
      profile_of(costs),
      cluster_of({{2, link_of(0ns, 1'000'000'000)}, {2, link_of(0ns, 100'000'000'000)}}), 12, {1});
  problem.recompute = {Recompute::none};
  const SearchResult result = search_exact(problem, {});
  REQUIRE(result.plans.size() == 1);
  CHECK(result.proved_optimal);
  CHECK(speaks_of_all_plans(result));
  const Plan& plan = result.plans.front().plan;
  CHECK(verify_bound(plan, problem.profile, problem.cluster).holds());
  // With more nodes there are too many orders: what was searched is said.
  problem.cluster =
      cluster_of({{4, link_of(0ns, 1'000'000'000)}, {4, link_of(0ns, 100'000'000'000)}});
  problem.max_stages = 3;
  const SearchResult wide = search_exact(problem, {});
  CHECK(wide.families.has(PlanFamily::scattered_devices));
  CHECK_THAT(wide.families.scope(), ContainsSubstring("plans on consecutive devices"));
  CHECK(wide.families.least_left_out() > Duration{0});
  // A claim that leaves the scope out is of more than what was proved.
  REQUIRE_FALSE(wide.plans.empty());
  Plan claimed = wide.plans.front().plan;
  CHECK(claimed.search->lower_bound > wide.families.least_left_out());
  CHECK(verify_bound(claimed, problem.profile, problem.cluster).holds());
  claimed.search->scope.clear();
  CHECK_FALSE(verify_bound(claimed, problem.profile, problem.cluster).holds());
}

TEST_CASE("the search puts kinds of device in the better order, and proves it") {
  // The first stage holds two microbatches, and so wants the larger memory, which comes second.
  LayerCost cost = layer_cost(10us, 20us);
  cost.saved = 1000;
  Problem problem =
      problem_of(profile_of(std::vector<LayerCost>(4, cost)), cluster_of({{2, {}}}, 2500), 8, {1});
  problem.cluster.kinds.push_back(problem.cluster.kinds.front());
  problem.cluster.kinds.back().memory = 4500;
  problem.cluster.devices = {0, 1};
  problem.recompute = {Recompute::none};
  const SearchResult result = search_exact(problem, {});
  REQUIRE(result.plans.size() == 1);
  const Plan& plan = result.plans.front().plan;
  CHECK(plan.stages.front().devices == std::vector<std::vector<int>>{{1}});
  CHECK(plan.stages.back().devices == std::vector<std::vector<int>>{{0}});
  CHECK(result.plans.front().prediction->step == (8 + 2 - 1) * 60us);
  CHECK(result.proved_optimal);
  // Asked for the first so many devices, it takes them as they come.
  problem.devices = 2;
  const SearchResult as_they_come = search_exact(problem, {});
  REQUIRE(as_they_come.plans.size() == 1);
  CHECK(as_they_come.plans.front().prediction->step > (8 + 2 - 1) * 60us);
}
