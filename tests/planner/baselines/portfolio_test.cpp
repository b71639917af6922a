// The exact search is never worse than another planner.

#include "planner/baselines/portfolio.hpp"

#include "planner/space/orders.hpp"
#include "tests/paths.hpp"
#include "tests/planner/compared.hpp"
#include "tests/planner/published.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

TEST_CASE("every strategy of another planner says how much work it is", "[portfolio]") {
  const Strategy& strategy = GENERATE(from_range(strategies));
  const bool ours = std::ranges::any_of(
      own_strategies, [&](const Strategy& own) { return own.search == strategy.search; });
  INFO(strategy.name);
  // Parts without contiguity are no stages that the search could start from.
  const bool is_scattered = strategy.search == search_dnn_partitioning_noncontiguous;
  // One with an argument has no answer until somebody gives it one.
  REQUIRE((strategy.work == nullptr) == (ours || is_scattered || strategy.takes_argument));
  if (strategy.work == nullptr) return;
  const ProblemSize small = size_of(random_problem(1, {4, 4}));
  ProblemSize large = small;
  large.layers = large.downsets = large.states = 10'000;
  large.devices = 1000;
  large.instructions = 1e9;
  CHECK(is_quick(strategy, small));
  CHECK_FALSE(is_quick(strategy, large));
}

TEST_CASE("exact is never worse than any quick strategy, on random problems",
          "[portfolio][seconds]") {
  int compared = 0;
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    INFO("seed " << seed);
    compared += require_never_worse(random_problem(seed + 7000, {6, 4}));
    compared += require_never_worse(random_branching(seed + 8000, {6, 4}));
  }
  CHECK(compared > 200);
}

TEST_CASE("exact is never worse than any quick strategy, on published profiles", "[portfolio]") {
  if (published_files().empty()) SKIP("no published profiles at " + shared_folder());
  // The others take too long where the compiler does not optimize.
  const auto problem = published_problem(shared_data() / "pipedream/alexnet/graph.txt",
                                         "2x2xgeneric@1GB/s,10GB/s", 4);
  CHECK(require_never_worse(problem) >= 8);
}

TEST_CASE("a model whose own order cuts badly is cut along a better one", "[portfolio]") {
  // Two chains of three layers from one source, listed in turn: cuts of the own order hand over the
  // outputs of both, cuts behind a whole chain hand over one and what the source made.
  std::vector<LayerCost> costs(8, layer_cost(10ms, 20ms));
  for (LayerCost& cost : costs) cost.output = 10'000'000;
  costs.front().output = costs.back().output = 1;
  Problem problem =
      problem_of(profile_of(costs), cluster_of({{2, link_of(0ns, 1'000'000'000)}}), 4, {1});
  problem.straight = true;
  problem.profile.model.edges = {{0, 1}, {0, 2}, {1, 3}, {2, 4}, {3, 5}, {4, 6}, {5, 7}, {6, 7}};
  const Duration own = search_brute_force(problem, {}).plans.front().prediction->step;
  const SearchResult exact = search_exact(problem, {});
  const Candidate& best = exact.plans.front();
  CHECK(best.prediction->step < own);
  REQUIRE_FALSE(best.plan.order.empty());
  CHECK(exact.lower_bound > 0ns);
  const Problem ordered = in_order(problem, best.plan.order);
  CHECK(predict(best.plan, ordered.profile, ordered.cluster).step == best.prediction->step);
  CHECK(search_brute_force(ordered, {}).plans.front().prediction->step == best.prediction->step);
}

TEST_CASE("other orders are topological, all different, and none for a chain", "[portfolio]") {
  CHECK(other_orders(problem_of(profile_of(std::vector<LayerCost>(5, layer_cost(1ms, 2ms))),
                                cluster_of({{2, {}}}), 2, {1}),
                     {}, 3)
            .empty());
  std::size_t most = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const Problem problem = random_branching(seed, {8, 4});
    std::vector<std::vector<int>> orders = other_orders(problem, {}, 3);
    most = std::max(most, orders.size());
    orders.emplace_back();  // its own
    std::sort(orders.begin(), orders.end());
    CHECK(std::adjacent_find(orders.begin(), orders.end()) == orders.end());
    for (const std::vector<int>& order : orders) {
      Plan plan;
      plan.order = order;
      CHECK_NOTHROW(in_plan_order(problem.profile, plan));
    }
    Problem fixed = problem;
    fixed.fixed = {{0, {0, 1}}};
    CHECK(other_orders(fixed, {}, 3).empty());
  }
  CHECK(most == 3);  // of models that have no more than four
}
