// Results as JSON fields and as text: shared by the verbs that show timelines and predictions.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "planner/predict.hpp"
#include "planner/search.hpp"
#include "simulator/timeline.hpp"
#include "tools/console.hpp"

namespace stagecraft {

nlohmann::ordered_json nanoseconds(const std::vector<Duration>& durations);

/// step_ns, span_ns[], busy_ns[], bubble, span_bubble, peak_in_flight[], peak_in_flight_weight[],
/// sends_forward[], sends_backward[].
nlohmann::ordered_json timeline_json(const Timeline& timeline);
/// Whether anything on it takes memory.
bool takes_memory(const Timeline& timeline);
/// peak_memory_bytes[] and memory[] by category at the peak.
void add_memory(nlohmann::ordered_json& result, const std::vector<MemoryPeak>& peaks);

/// Of a plan's simulation: lists of the program's devices become lists of the cluster's devices
/// that the plan uses, ascending, whose numbers are devices[]; "device" and "peer" become such
/// numbers. Tensor-parallel peers do the same at the same time.
void name_cluster_devices(nlohmann::ordered_json& result, const Plan& plan);

/// Device, layers, forward, backward, peak, idle: the table people read of a plan.
std::string plan_table(const Plan& plan, const Model& model, const Prediction& prediction,
                       bool unicode);
/// "4", or that of each stage: "4-2-2-2".
std::string tensor_degrees(const Plan& plan);
/// "4 stages × 2 replicas, 1f1b, 16 microbatches of 1": the plan in a line.
std::string plan_sentence(const Plan& plan);
/// "step 4.75 s, 27.6k tokens/s, bubble 27.3 %": the prediction in a line.
std::string prediction_sentence(const Prediction& prediction);

/// Layers by name: "embedding, block.0 – block.3".
std::string layer_names(const Model& model, LayerRange layers);

/// Device numbers, ascending, as "3 8-15".
std::string device_ranges(const std::vector<int>& devices);

}  // namespace stagecraft
