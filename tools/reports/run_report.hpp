// What `run` says of what it has done.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "executor/driver/execute.hpp"
#include "planner/interop/load_plan.hpp"
#include "tools/console.hpp"
#include "tools/reports/occupation.hpp"

namespace stagecraft {

/// Prints steps, times and losses beside the prediction, and latencies of inference; of a machine
/// that was busy meanwhile, that it was, and nothing about the prediction. Returns the fields of
/// the result.
nlohmann::ordered_json report_run(Console& console, const Plan& plan, const RunResult& run,
                                  const Prediction& prediction, const Occupation& occupation);

/// Repeats the run on a single device. Throws Error (check) unless that ends alike: with the same
/// bits, or to rounding where layers are split. Returns which: "bitwise" or "tolerance".
std::string_view verify_run(Console& console, const LoadedPlan& loaded, const Dataset& dataset,
                            const RunOptions& options, const RunResult& run);

}  // namespace stagecraft
