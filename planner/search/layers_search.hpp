// The exact search with recomputation chosen per layer.
//
// 1. Search plans whose stages recompute as a whole or not at all.
// 2. Search without limits on memory and without recomputation. Recomputation never makes a plan
//    faster, so this lower bound holds for all plans. The best plans of 1 and 2 are made to fit by
//    recomputation per layer (planner/search/heuristics/layers_again.hpp).
// 3. The search among identical pipeline replicas (planner/search/column_search.hpp) tightens its
//    bounds by critical paths and by memory peaks; each layer takes the choice that is best under
//    the multipliers of both (planner/relaxations/stage_choices.hpp). The layouts found on the way
//    are made to fit, too.
//
// If there are few plans in all, brute force replaces step 3.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The problem with unlimited memory and without recomputation.
Problem without_memory_limits(const Problem& problem);

/// Number of plans whose simulation takes about a second.
inline constexpr double few_plans = 20'000;

/// Needs a problem with `recompute_layers`. Up to `few` plans are simulated by brute force; less
/// effort than the default reduces that number in proportion.
SearchResult search_layers(const Problem& problem, const SearchControl& control,
                           double few = few_plans);

}  // namespace stagecraft
