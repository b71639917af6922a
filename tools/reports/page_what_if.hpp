// What the page's sliders move: the plan's program at several numbers of microbatches and ways to
// recompute, and its costs over a grid of bandwidths. Each position is one that
// `stagecraft simulate PLAN --set …` takes, and means the same.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "planner/costs/predict.hpp"
#include "planner/interop/load_plan.hpp"

namespace stagecraft {

/// The plan's program for the page: of one column where all are alike and `folds`. Throws Error
/// (input) if the plan is not valid.
Compiled compile_for_page(const LoadedPlan& loaded, bool folds);

/// axes[] (key, name, percent[], at), microbatches[], recompute[] (name, set), programs[] (place in
/// both lists, program, costs), costs[]; the plan as it is comes first. What the plan's schedule or
/// model refuses is in refused[]. `compiled` is the plan as it is.
nlohmann::ordered_json what_if_json(const LoadedPlan& loaded, const Compiled& compiled, bool folds);

}  // namespace stagecraft
