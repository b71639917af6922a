// Modules per stage and the schedule's class for torch.distributed.pipelining; see
// importers/torch.cpp. Modules of transformers have torchtitan's names.

#include <nlohmann/json.hpp>

#include "planner/exporters.hpp"
#include "planner/exporters/even_ranks.hpp"
#include "planner/layer_names.hpp"
#include "planner/torch_names.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

using Value = nlohmann::ordered_json;

constexpr std::string_view system_name = "torch.distributed.pipelining";

std::string_view class_of(const Plan& plan) {
  const auto name = torch_class_of(plan.schedule.name);
  if (!name) {
    fail_with_help(
        ErrorKind::input,
        concat(system_name, " has no class for the schedule ", plan.schedule.name),
        {concat("its _PipelineScheduleRuntime reads any order: stagecraft schedule show ",
                plan.schedule.name, " --format torch")});
  }
  if (plan.schedule.group || !plan.schedule.warm_up.empty()) {
    fail(system_name,
         " has its own number of forwards ahead and of microbatches in a row; this "
         "plan says others");
  }
  return *name;
}

}  // namespace

std::string export_torch(const LoadedPlan& loaded) {
  const Plan& plan = loaded.plan;
  const std::string_view schedule = class_of(plan);
  const Degrees degrees = even_degrees(system_name, plan);
  samples_per_replica(system_name, plan, degrees.data);
  // The model is in the plan's order.
  const auto modules = module_names(loaded.profile.model, ModuleNames::torchtitan);
  Value stages = Value::array();
  for (const Stage& stage : plan.stages) {
    if (stage.layers.size() == 0) {
      fail(system_name,
           " has an optimizer for each stage, and torch makes none without parameters;", " stage ",
           stages.size(), " of the plan is empty");
    }
    Value names = Value::array();
    for (int layer = stage.layers.first; layer < stage.layers.end; ++layer) {
      for (const std::string& module : modules[static_cast<std::size_t>(layer)])
        names.push_back(module);
    }
    stages.push_back(std::move(names));
  }
  Value value{{"stages", std::move(stages)},
              {"schedule", schedule},
              {"pipeline_parallel_degree", degrees.pipeline},
              {"data_parallel_degree", degrees.data},
              {"tensor_parallel_degree", degrees.tensor},
              {"global_batch_size", plan.batch.global},
              {"microbatches", plan.batch.microbatches},
              {"activation_checkpoint", to_string(same_recompute(system_name, plan))}};
  const Parallelism& parallelism = plan.parallelism;
  if (parallelism.sequence) value["sequence_parallel"] = true;
  if (parallelism.context > 1) value["context_parallel_degree"] = parallelism.context;
  if (parallelism.expert > 1) value["expert_parallel_degree"] = parallelism.expert;
  if (parallelism.expert_tensor > 0) {
    value["expert_tensor_parallel_degree"] = parallelism.expert_tensor;
  }
  return to_text(value);
}

}  // namespace stagecraft
