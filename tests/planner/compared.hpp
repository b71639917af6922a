// The exact search held against trying everything, and against other planners.

#pragma once

#include "planner/baselines/portfolio.hpp"
#include "planner/search/enumerate/mixed_search.hpp"
#include "planner/search/heuristics/warm_starts.hpp"
#include "planner/space/device_orders.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

namespace stagecraft::tests {

/// Among the plans that brute force looks at.
inline bool is_searched(const Problem& problem, const Plan& plan) {
  if (lies_in_space(Space(problem), plan)) return true;
  const auto orders = asked_device_orders(problem).orders;
  return std::any_of(orders.begin(), orders.end(), [&](const std::vector<int>& order) {
    std::vector<int> numbers(order.size());
    for (std::size_t place = 0; place < order.size(); ++place)
      numbers[static_cast<std::size_t>(order[place])] = static_cast<int>(place);
    const Problem ordered = in_device_order(problem, order);
    return lies_in_space(Space(ordered), renumbered(plan, numbers));
  });
}

/// Equal objectives, and proved; or another planner's plan beats all that was searched.
inline void require_as_good_as_brute_force(const Problem& problem) {
  const SearchResult every = search_brute_force(problem, {});
  const SearchResult exact = search_exact(problem, {});
  if (every.plans.empty()) {
    if (exact.plans.empty()) {
      REQUIRE(exact.infeasible);
    } else {
      REQUIRE_FALSE(is_searched(problem, exact.plans.front().plan));
    }
    return;
  }
  REQUIRE_FALSE(exact.plans.empty());
  const Duration best = every.plans.front().prediction->step;
  if (!is_searched(problem, exact.plans.front().plan)) {
    REQUIRE(exact.plans.front().prediction->step < best);
    REQUIRE(exact.lower_bound <= exact.plans.front().prediction->step);
    REQUIRE(exact.question.has_value() == (exact.lower_bound > Duration{0}));
    validate(exact.plans.front().plan, problem.profile.model, problem.cluster);
    return;
  }
  REQUIRE(exact.plans.front().prediction->step == best);
  REQUIRE(exact.lower_bound <= best);
  REQUIRE(exact.proved_optimal);
  REQUIRE(exact.gap == 0);
  validate(exact.plans.front().plan, problem.profile.model, problem.cluster);
}

/// Exact's step is at most that of every strategy that is quick for the problem, where that
/// strategy's plan fits and is allowed. How many were compared.
inline int require_never_worse(const Problem& problem, const SearchControl& control = {}) {
  const SearchResult exact = search_exact(problem, control);
  const Space space(problem);
  int compared = 0;
  for (const Strategy& strategy : strategies) {
    if (!is_quick(strategy, size_of(problem))) continue;
    std::optional<SearchResult> other;
    try {
      other = strategy.search(problem, {});
    } catch (const Error&) {
      continue;  // its planner cannot be asked
    }
    if (other->plans.empty()) continue;
    const Candidate& plan = other->plans.front();
    if (!plan.prediction || !plan.prediction->fits || !is_wanted(space, plan.plan)) continue;
    INFO(strategy.name);
    REQUIRE_FALSE(exact.plans.empty());
    REQUIRE(exact.plans.front().prediction->step <= plan.prediction->step);
    ++compared;
  }
  return compared;
}

}  // namespace stagecraft::tests
