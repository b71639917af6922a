#include "planner/space/orders.hpp"

#include "planner/strategies.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

using Orders = std::vector<std::vector<int>>;

/// Layers that all take as long, with these edges, on two devices.
Problem branching(int layers, std::vector<Edge> edges) {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.output = 1000;
  const std::vector<LayerCost> costs(static_cast<std::size_t>(layers), cost);
  Problem problem =
      problem_of(profile_of(costs), cluster_of({{2, link_of(1us, 1'000'000'000)}}), 8, {1});
  problem.profile.model.edges = std::move(edges);
  return problem;
}

}  // namespace

TEST_CASE("a model that branches little is searched along all its orders", "[orders]") {
  // 0 -> 1 -> 3 and 0 -> 2 -> 3.
  const Problem diamond = branching(4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  CHECK(other_orders(diamond, {}, 3) == Orders{{0, 2, 1, 3}});
  CHECK_FALSE(has_more_orders(diamond.profile.model, 2));
  CHECK(has_more_orders(diamond.profile.model, 1));
  const SearchResult found = search_exact(diamond, {});
  REQUIRE(found.proved_optimal);
  CHECK_FALSE(found.families.leaves_out());
  CHECK(found.plans.front().plan.search->proved_optimal);
}

TEST_CASE("a chain with links past layers has one order", "[orders]") {
  const Problem skips = branching(4, {{0, 1}, {1, 2}, {2, 3}, {0, 2}, {1, 3}});
  CHECK(other_orders(skips, {}, 3).empty());
  CHECK_FALSE(has_more_orders(skips.profile.model, 1));
  // However long it is.
  std::vector<Edge> edges;
  for (int layer = 1; layer < 10'000; ++layer) edges.push_back({layer - 1, layer});
  const Problem chain = branching(10'000, std::move(edges));
  CHECK_FALSE(has_more_orders(chain.profile.model, 1));
}

TEST_CASE("with more orders than are searched, a proof says of which it speaks", "[orders]") {
  // Four layers that may come in any order: 24 of them.
  const Problem wide =
      branching(6, {{0, 1}, {0, 2}, {0, 3}, {0, 4}, {1, 5}, {2, 5}, {3, 5}, {4, 5}});
  CHECK(has_more_orders(wide.profile.model, 23));
  CHECK_FALSE(has_more_orders(wide.profile.model, 24));
  const SearchResult found = search_exact(wide, {});
  REQUIRE_FALSE(found.plans.empty());
  REQUIRE(found.families.has(PlanFamily::other_layer_orders));
  CHECK(found.families.find(PlanFamily::other_layer_orders)->orders > 1);
  CHECK(found.families.find(PlanFamily::other_layer_orders)->orders <= 4);
  const SearchFigures& figures = *found.plans.front().plan.search;
  // All work on both devices, all the time: with any order.
  const Duration work = 8 * 6 * 3ms / 2;
  CHECK(found.families.least_left_out() == work);
  CHECK(figures.proved_optimal == (found.plans.front().prediction->step == work));
  CHECK_THAT(figures.scope, ContainsSubstring("plans along "));
  // Stages that are fixed speak of the model's own order: then it is the only one.
  Problem fixed = wide;
  fixed.fixed = {{0, {0, 3}}};
  CHECK_FALSE(search_exact(fixed, {}).families.has(PlanFamily::other_layer_orders));
}
