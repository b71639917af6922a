// DeepSpeed's PipelineModule for a plan: its parts, and what a ds_config says; see
// importers/deepspeed.cpp.

#include <algorithm>
#include <nlohmann/json.hpp>

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
    case Precision::float8: reasons.add(" has no word for training in ", to_string(precision));
  }
  return Value::object();
}

Value config_value(Reasons& reasons, const Plan& plan, std::int64_t samples) {
  Value config{{"train_batch_size", plan.batch.global},
               {"train_micro_batch_size_per_gpu", samples},
               {"gradient_accumulation_steps", plan.batch.microbatches}};
  const bool shards = plan.optimizer.sharding == Sharding::zero1;
  config["zero_optimization"] = {{"stage", shards ? 1 : 0}};
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

Value deepspeed_value(Reasons& reasons, const Plan& plan) {
  require_plain(reasons, plan);
  require_whole_layers(reasons, plan);
  if (shards_gradients(plan.optimizer.sharding)) {
    reasons.add(" refuses ZeRO-2 and 3 with pipelines; the plan has ",
                to_string(plan.optimizer.sharding));
  }
  if (plan.optimizer.gradient_bucket > 0) {
    reasons.add(
        " sums gradients of pipelines behind the last backward; plan without --gradient-bucket");
  }
  if (plan.schedule.name != "1f1b") {
    reasons.add(" has the schedule 1f1b, not ", plan.schedule.name);
  }
  const Degrees degrees = even_degrees(reasons, plan);
  Value parts{0};
  for (const Stage& stage : plan.stages) parts.push_back(stage.layers.end);
  Value value{
      {"parts", std::move(parts)},
      {"world_size", used_devices(plan).size()},
      {"model_parallel_size", degrees.tensor},
      {"activation_checkpoint_interval", checkpoint_interval(reasons, plan)},
      {"ds_config", config_value(reasons, plan, samples_per_replica(reasons, plan, degrees.data))}};
  if (plan.parallelism.sequence) value["sequence_parallel"] = true;
  return value;
}

}  // namespace

std::vector<std::string> reasons_against_deepspeed(const Plan& plan, const Model& /*model*/,
                                                   const Cluster& /*cluster*/) {
  Reasons reasons(deepspeed_name);
  deepspeed_value(reasons, plan);
  return reasons.sentences();
}

std::string export_deepspeed(const LoadedPlan& loaded) {
  Reasons reasons(deepspeed_name);
  const Value value = deepspeed_value(reasons, loaded.plan);
  reasons.require_none();
  return to_text(value);
}

}  // namespace stagecraft
