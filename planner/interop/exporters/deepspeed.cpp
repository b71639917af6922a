// DeepSpeed's PipelineModule for a plan: its parts, and what a ds_config says; see
// importers/deepspeed.cpp. PipelineModule takes a method, no parts (0.19.8): "partition_method" is
// there where one gives these. With ZeRO-2 or 3, which it refuses, there is no pipeline, and so
// there are no parts: DeepSpeed's own engine takes the model as it is.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "planner/baselines/launch_scripts/partition.hpp"
#include "planner/costs/stage_recompute.hpp"
#include "planner/interop/exporters.hpp"
#include "planner/interop/exporters/even_ranks.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

using Value = nlohmann::ordered_json;

constexpr std::string_view deepspeed_name = "DeepSpeed";

Value precision_value(Reasons& reasons, Precision precision) {
  switch (precision) {
    case Precision::bfloat16: return {{"bf16", {{"enabled", true}}}};
    case Precision::float16: return {{"fp16", {{"enabled", true}}}};
    case Precision::float32: return Value::object();
    case Precision::float64:
    case Precision::float8:
    case Precision::float8_with_attention:
      reasons.add(" has no word for training in ", to_string(precision));
  }
  return Value::object();
}

int zero_stage(Sharding sharding) {
  switch (sharding) {
    case Sharding::none: return 0;
    case Sharding::zero1: return 1;
    case Sharding::zero2: return 2;
    case Sharding::zero3: return 3;
  }
  return 0;
}

Value config_value(Reasons& reasons, const Plan& plan, std::int64_t samples) {
  Value config{{"train_batch_size", plan.batch.global},
               {"train_micro_batch_size_per_gpu", samples},
               {"gradient_accumulation_steps", plan.batch.microbatches}};
  config["zero_optimization"] = {{"stage", zero_stage(plan.optimizer.sharding)}};
  const bool is_adamw = plan.optimizer.kind == OptimizerKind::adamw;
  config["optimizer"] = {{"type", is_adamw ? "AdamW" : "SGD"}};
  config.update(precision_value(reasons, plan.precision));
  return config;
}

/// Layers between two activation checkpoints; 0: none.
int checkpoint_interval(Reasons& reasons, const Plan& plan) {
  int most = 0;
  for (const Stage& stage : plan.stages) most = std::max(most, stage.layers.size());
  const std::optional<int> run =
      length_of_runs(plan, [](const Stage& stage) { return stage.layers; });
  // A run of a whole stage would come back as a stage that recomputes.
  if (run && *run < most) return *run;
  return same_recompute(reasons, plan) == Recompute::full ? most : 0;
}

/// Of PipelineModule's own methods the one that gives these parts; none: it has to be told.
std::optional<std::string_view> method_of(const std::vector<int>& parts, const Model& model) {
  const int stages = static_cast<int>(parts.size()) - 1;
  if (parts == partition_uniform(static_cast<int>(model.layers.size()), stages)) return "uniform";
  if (parts == partition_balanced(deepspeed_parameters(model), stages)) return "parameters";
  return {};
}

std::vector<int> parts_of(const Plan& plan) {
  std::vector<int> parts{0};
  for (const Stage& stage : plan.stages) parts.push_back(stage.layers.end);
  return parts;
}

/// By DeepSpeed's own launcher; train.py is the caller's, who has the model.
std::string launch_line(const Plan& plan, const Cluster& cluster) {
  const int used = static_cast<int>(used_devices(plan).size());
  const int per_node = cluster.levels.empty() ? used : cluster.levels.back().count;
  const int processes = std::gcd(used, per_node);
  const int nodes = used / processes;
  return concat(
      "deepspeed ", nodes > 1 ? concat("--hostfile hostfile --num_nodes ", nodes, " ") : "",
      "--num_gpus ", processes, " train.py --deepspeed --deepspeed_config ds_config.json");
}

Value deepspeed_value(Reasons& reasons, const Plan& plan, const Model& model,
                      const Cluster& cluster) {
  require_plain(reasons, plan);
  require_usual_launching(reasons, plan);
  require_whole_layers(reasons, plan);
  const bool is_whole = shards_gradients(plan.optimizer.sharding);
  if (is_whole && plan.stages.size() > 1) {
    reasons.add(" refuses ZeRO-2 and 3 with pipelines; the plan has ",
                to_string(plan.optimizer.sharding), ": --pp 1 has no pipeline");
  }
  if (plan.optimizer.gradient_bucket > 0) {
    reasons.add(
        " sums gradients of pipelines behind the last backward; plan without --gradient-bucket");
  }
  if (plan.schedule.name != "1f1b") {
    reasons.add(" has the schedule 1f1b, not ", plan.schedule.name);
  }
  const Degrees degrees = even_degrees(reasons, plan);
  const std::vector<int> parts = parts_of(plan);
  Value value = Value::object();
  if (!is_whole) value["parts"] = parts;
  value["world_size"] = used_devices(plan).size();
  value["model_parallel_size"] = degrees.tensor;
  value["activation_checkpoint_interval"] = checkpoint_interval(reasons, plan);
  value["ds_config"] =
      config_value(reasons, plan, samples_per_replica(reasons, plan, degrees.data));
  if (plan.parallelism.sequence) value["sequence_parallel"] = true;
  const auto method = is_whole ? std::nullopt : method_of(parts, model);
  if (method) value["partition_method"] = *method;
  value["launch"] = launch_line(plan, cluster);
  return value;
}

}  // namespace

std::vector<std::string> reasons_against_deepspeed(const Plan& plan, const Model& model,
                                                   const Cluster& cluster) {
  Reasons reasons(deepspeed_name);
  deepspeed_value(reasons, plan, model, cluster);
  return reasons.sentences();
}

std::vector<std::string> notes_on_deepspeed(const LoadedPlan& loaded) {
  std::vector<std::string> notes{
      "\"launch\" starts it: ds_config.json has the content of \"ds_config\", and train.py is the "
      "program that has the model and gives it to deepspeed.initialize"};
  if (shards_gradients(loaded.plan.optimizer.sharding)) {
    notes.emplace_back(
        "without a pipeline there is no PipelineModule: deepspeed.initialize takes the model as it "
        "is, with ds_config; its own code checkpoints as many layers as "
        "activation_checkpoint_interval says (0: none), and divides them over "
        "model_parallel_size");
    return notes;
  }
  const auto method = method_of(parts_of(loaded.plan), loaded.profile.model);
  if (method) {
    notes.push_back(concat("the model is PipelineModule(layers, num_stages=",
                           pipeline_devices(loaded.plan), ", partition_method=\"", *method, "\")"));
    return notes;
  }
  notes.emplace_back(
      "no partition_method of DeepSpeed gives these parts: in a subclass of PipelineModule let "
      "_partition_layers set self.parts to them and call self._set_bounds(parts[stage], "
      "parts[stage + 1])");
  return notes;
}

std::string export_deepspeed(const LoadedPlan& loaded) {
  Reasons reasons(deepspeed_name);
  const Value value = deepspeed_value(reasons, loaded.plan, loaded.profile.model, loaded.cluster);
  reasons.require_none();
  return to_text(value);
}

}  // namespace stagecraft
