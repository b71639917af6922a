// Modules per stage and the schedule for torch.distributed.pipelining (2.15); see
// importers/torch.cpp. Modules of transformers have torchtitan's names.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/costs/stage_recompute.hpp"
#include "planner/interop/exporters.hpp"
#include "planner/interop/exporters/even_ranks.hpp"
#include "planner/interop/exporters/torch_order.hpp"
#include "planner/interop/torch_checkpoints.hpp"
#include "planner/interop/torch_names.hpp"
#include "planner/plan/layer_names.hpp"
#include "profiles/json.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/views/torch_csv.hpp"

namespace stagecraft {

std::string torch_order_csv(Reasons& reasons, const Plan& plan) {
  try {
    const Schedule schedule = find_schedule(plan.schedule.name).generate(shape_of(plan));
    const std::string caveat = torch_caveat(schedule);
    if (caveat.empty()) return write_torch_csv(schedule, TorchForm::compute_only);
    reasons.add(" cannot run the schedule ", plan.schedule.name, ": ", caveat);
  } catch (const Error& error) {
    reasons.add(" cannot run the plan's order: ", error.message());
  }
  return "";
}

namespace {

using Value = nlohmann::ordered_json;

constexpr std::string_view torch_name = "torch.distributed.pipelining";

/// The class that orders as the plan does; else the runtime with the order itself, as a file that
/// `_load_csv` reads, and what it is to the importer.
void add_schedule(Reasons& reasons, Value& value, const Plan& plan) {
  const auto name = torch_class_of(plan.schedule.name);
  if (name && torch_class_differs(plan).empty()) {
    value["schedule"] = *name;
    return;
  }
  value["schedule"] = torch_runtime;
  Value order{{"name", plan.schedule.name}};
  if (plan.schedule.group) order["group"] = *plan.schedule.group;
  value["order"] = std::move(order);
  value["schedule_csv"] = torch_order_csv(reasons, plan);
}

bool wraps_alike(const Plan& plan, const Plan& other) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (recompute_in_words(plan.stages[s]) == "none" &&
        recompute_in_words(other.stages[s]) == "none")
      continue;
    if (plan.stages[s].again != other.stages[s].again) return false;
  }
  return true;
}

/// Every how many blocks of a rank are wrapped, each by itself; nothing where it is not that.
std::optional<int> wrapped_blocks(const Plan& plan, const Model& model) {
  Plan wrapped = plan;
  wrapped.order.clear();  // the model is in it already
  for (int every = 1; every <= static_cast<int>(model.layers.size()); ++every) {
    wrap_blocks(wrapped, model, every);
    if (wraps_alike(plan, wrapped)) return every;
  }
  return {};
}

/// See importers/torch.cpp.
void add_checkpoints(Reasons& reasons, Value& value, const Plan& plan, const Model& model) {
  const auto apart = std::ranges::find_if(plan.stages, [](const Stage& stage) {
    return !stage.again.empty() && recompute_in_words(stage) != "none";
  });
  const auto whole = [](const Stage& stage) { return stage.recompute == Recompute::full; };
  if (apart == plan.stages.end()) {
    const bool recomputes = same_recompute(reasons, plan) == Recompute::full;
    value["activation_checkpoint"] = recomputes ? "stage" : "none";
    return;
  }
  const std::optional<int> every =
      std::ranges::any_of(plan.stages, whole) ? std::nullopt : wrapped_blocks(plan, model);
  if (!every) {
    reasons.add(
        ": torchtitan recomputes every transformer block by itself, or every second, third … of a "
        "rank; of stage ",
        apart - plan.stages.begin(), " the plan recomputes ", recompute_in_words(*apart));
    return;
  }
  value["activation_checkpoint"] = *every == 1 ? "full" : "selective";
  if (*every > 1) value["selective_ac_option"] = std::to_string(*every);
}

Value torch_value(Reasons& reasons, const Plan& plan, const Model& model) {
  require_usual_launching(reasons, plan);
  if (plan.weights != WeightPolicy::flush) {
    reasons.add(" flushes weights after each batch; this plan has \"", to_string(plan.weights),
                "\"");
  }
  const Degrees degrees = even_degrees(reasons, plan);
  samples_per_replica(reasons, plan, degrees.data);
  // The model is in the plan's order.
  const auto modules = module_names(model, ModuleNames::torchtitan);
  Value stages = Value::array();
  for (const Stage& stage : plan.stages) {
    if (stage.layers.size() == 0) {
      reasons.add(
          " has an optimizer for each stage, and torch makes none without parameters; stage ",
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
              {"pipeline_parallel_degree", degrees.pipeline},
              {"data_parallel_degree", degrees.data},
              {"tensor_parallel_degree", degrees.tensor},
              {"global_batch_size", plan.batch.global},
              {"microbatches", plan.batch.microbatches}};
  add_schedule(reasons, value, plan);
  add_checkpoints(reasons, value, plan, model);
  const Parallelism& parallelism = plan.parallelism;
  if (parallelism.sequence) value["sequence_parallel"] = true;
  if (parallelism.context > 1) value["context_parallel_degree"] = parallelism.context;
  if (parallelism.expert > 1) value["expert_parallel_degree"] = parallelism.expert;
  if (parallelism.expert_tensor > 0) {
    value["expert_tensor_parallel_degree"] = parallelism.expert_tensor;
  }
  return value;
}

}  // namespace

std::vector<std::string> reasons_against_torch(const Plan& plan, const Model& model,
                                               const Cluster& /*cluster*/) {
  Reasons reasons(torch_name);
  torch_value(reasons, plan, model);
  return reasons.sentences();
}

std::vector<std::string> notes_on_torch(const LoadedPlan& loaded) {
  std::vector<std::string> notes;
  const std::string differs = torch_class_differs(loaded.plan);
  if (!differs.empty()) {
    notes.push_back(concat(differs, "; the plan's own order is in the file, for ", torch_runtime));
  }
  const std::string note = torch_class_note(loaded.plan);
  if (!note.empty()) notes.push_back(note);
  return notes;
}

std::string export_torch(const LoadedPlan& loaded) {
  Reasons reasons(torch_name);
  const Value value = torch_value(reasons, loaded.plan, loaded.profile.model);
  reasons.require_none();
  return to_text(value);
}

}  // namespace stagecraft
