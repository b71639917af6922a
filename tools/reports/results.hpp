// Results as JSON fields and as text: shared by the verbs that show timelines and predictions.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/analysis/utilisation.hpp"
#include "planner/costs/predict.hpp"
#include "planner/problem/problem.hpp"
#include "simulator/values/timeline.hpp"
#include "tools/console.hpp"
#include "tools/table.hpp"

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
/// numbers. Tensor-parallel peers do the same at the same time, and so do the columns that a
/// program of one of them stands for.
void name_cluster_devices(nlohmann::ordered_json& result, const Plan& plan,
                          const Compiled& compiled);

/// Device, layers, forward, backward, peak and its limit, idle: the table people read of a plan.
/// Together, of more than 24 stages those one behind the other that are alike have one row.
/// Where it would be wider than 100 columns names of layers are shortened, or left to numbers.
std::string plan_table(const Plan& plan, const Model& model, const Prediction& prediction,
                       TableRows rows, bool unicode);
/// Of the plan's fullest device: "7.79 of 8GiB"; "7.79GiB" without a limit.
std::string highest_peak(const Prediction& prediction);
/// "4", or that of each stage: "4-2-2-2".
std::string tensor_degrees(const Plan& plan);
/// What the plan's devices are called one by one: "GPU", or "device".
std::string_view device_word(const Plan& plan, const Cluster& cluster);

/// "datasheet costs", or "datasheet costs of PyTorch's kernels".
std::string words_of_costs(const Plan& plan, Provenance provenance);

/// "step 4.75s, 53.9 samples/s, 78,380 tokens/s (1,225 tokens/s/GPU), bubble 27.3 % (datasheet
/// costs)": the prediction in a line.
std::string prediction_sentence(const Plan& plan, const Cluster& cluster,
                                const Prediction& prediction);

/// "141 TFLOP/s/GPU, MFU 45.2 % (HFU 58.1 % with recomputation) of 312 TFLOP/s, dense bf16";
/// nothing where it is not known.
std::string utilisation_sentence(const Plan& plan, const Cluster& cluster,
                                 const std::optional<Utilisation>& utilisation);
/// The last line about a plan that does not fit: the device that exceeds its memory the most; empty
/// if it fits.
std::string fit_sentence(const Plan& plan, const Prediction& prediction);
/// The step at which the devices would compute at their peak all the time; 0 where it is not known.
Duration shortest_step(const Prediction& prediction, const std::optional<Utilisation>& utilisation);
/// tokens_per_second_per_device, tflops_per_second_per_device, as far as they are known.
void add_rates(nlohmann::ordered_json& result, const Plan& plan, const Prediction& prediction,
               const std::optional<Utilisation>& utilisation);
/// mfu, hfu, peak_flops; nothing where they are not known.
void add_utilisation(nlohmann::ordered_json& result, const std::optional<Utilisation>& utilisation);
/// memory_limit_bytes[] of the cluster's devices that the plan uses; null where it is unlimited.
void add_memory_limits(nlohmann::ordered_json& result, const Plan& plan,
                       const Prediction& prediction);

/// Layers by name: "embedding, block.0 – block.3".
std::string layer_names(const Model& model, LayerRange layers);

/// Device numbers, ascending, as "3 8-15".
std::string device_ranges(const std::vector<int>& devices);

}  // namespace stagecraft
