// Other plans near a plan, as points of memory against throughput.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/costs/predict.hpp"
#include "planner/interop/load_plan.hpp"

namespace stagecraft {

/// The plan itself, every change of one of its values that makes sense, and these together with
/// each way to recompute: changes, step_ns, samples_per_second, peak_bytes, limit_bytes (null:
/// unlimited), fits, front (no other that fits needs less memory and is as fast). The first is the
/// plan.
nlohmann::ordered_json alternatives_json(const LoadedPlan& loaded, const Prediction& now,
                                         int threads);

}  // namespace stagecraft
