// torchtitan's configuration for a plan, as 0.3.0 has it: a Python module with a function, since
// that release reads no other. NAME.py, and NAME.csv where no class of torch orders as the plan
// does.

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <numeric>

#include "planner/costs/stage_recompute.hpp"
#include "planner/interop/exporters.hpp"
#include "planner/interop/exporters/even_ranks.hpp"
#include "planner/interop/exporters/torch_order.hpp"
#include "planner/interop/torch_checkpoints.hpp"
#include "planner/interop/torch_names.hpp"
#include "planner/plan/layer_names.hpp"
#include "planner/targets/targets.hpp"
#include "planner/targets/torchtitan_models.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view titan_name = "torchtitan";

std::string_view python_bool(bool value) {
  return value ? "True" : "False";
}

std::string stages_text(Reasons& reasons, const Plan& plan, const Model& model) {
  // The model is in the plan's order.
  const auto modules = module_names(model, ModuleNames::torchtitan);
  std::string text = "[";
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const LayerRange& layers = plan.stages[s].layers;
    if (layers.size() == 0) {
      reasons.add(
          " has an optimizer for each stage, and torch makes none without parameters; stage ", s,
          " of the plan is empty");
    }
    std::string names;
    for (int layer = layers.first; layer < layers.end; ++layer) {
      for (const std::string& module : modules[static_cast<std::size_t>(layer)]) {
        names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", module);
      }
    }
    text += fmt::format("\n    [{}],", names);
  }
  return text + "\n]";
}

/// Each block by itself, or nothing.
std::string checkpoints_text(Reasons& reasons, const Plan& plan, const Model& model) {
  Plan wrapped = plan;
  wrapped.order.clear();  // the model is in it already
  wrap_blocks(wrapped, model, 1);
  bool none = true, all = true;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    none = none && recompute_in_words(plan.stages[s]) == "none";
    all = all && plan.stages[s].recompute == Recompute::none &&
          (plan.stages[s].again == wrapped.stages[s].again ||
           (recompute_in_words(wrapped.stages[s]) == "none" &&
            recompute_in_words(plan.stages[s]) == "none"));
  }
  if (none) return "None";
  if (!all) {
    reasons.add(
        " recomputes every transformer block by itself, or none; its selective policy keeps the "
        "results of chosen operators, for which plans have no words");
  }
  return "FullAC.Config()";
}

/// FSDP gathers parameters once in a step of a pipeline, or, with "always", for each pass.
struct TitanSharding {
  int replicate = 1, shard = 1;
  std::string_view reshard = "default";
};

TitanSharding sharding_of(Reasons& reasons, const Plan& plan, const Degrees& degrees) {
  if (degrees.data > 1 || degrees.context > 1) {
    const std::string why = torchtitan_shards_otherwise({.schedule = plan.schedule,
                                                         .devices = degrees.pipeline,
                                                         .microbatches = plan.batch.microbatches,
                                                         .sharding = plan.optimizer.sharding});
    if (!why.empty()) reasons.add(why.substr(titan_name.size()));
  }
  switch (plan.optimizer.sharding) {
    case Sharding::none: return {.replicate = degrees.data};
    case Sharding::zero1:
    case Sharding::zero2: return {.shard = degrees.data, .reshard = "never"};
    case Sharding::zero3: return {.shard = degrees.data, .reshard = "always"};
  }
  return {};
}

std::string_view dtype_of(Reasons& reasons, Precision precision) {
  if (precision == Precision::bfloat16) return "bfloat16";
  if (precision != Precision::float32) {
    reasons.add(" trains in bf16 or fp32 by its configuration; the plan has ",
                to_string(precision));
  }
  return "float32";
}

/// The name decides where a stage is, and, without a file, the order.
std::string_view schedule_of(Reasons& reasons, const Plan& plan) {
  const auto name = torch_class_of(plan.schedule.name);
  if (name && torch_class_differs(plan).empty()) return *name;
  switch (find_schedule(plan.schedule.name).placement) {
    case StagePlacement::linear:
    case StagePlacement::loop: return "Interleaved1F1B";
    case StagePlacement::vee: return "ZBVZeroBubble";
    case StagePlacement::wave:
    case StagePlacement::bidirectional:
      reasons.add(" puts stages on ranks round and round or in a V; the schedule ",
                  plan.schedule.name, " has them elsewhere");
  }
  return "";
}

bool needs_file(const Plan& plan) {
  return !torch_class_of(plan.schedule.name) || !torch_class_differs(plan).empty();
}

/// What the file of the order is to our importer.
std::string order_text(const Plan& plan) {
  if (!needs_file(plan)) return "";
  const std::string group =
      plan.schedule.group ? fmt::format(", \"group\": {}", *plan.schedule.group) : "";
  return fmt::format("# The order of the file beside this one.\nORDER = {{\"name\": \"{}\"{}}}\n",
                     plan.schedule.name, group);
}

void require_family(Reasons& reasons, const Model& model) {
  if (!model.transformer) {
    reasons.add(" trains transformers; the model \"", model.name, "\" is not known as one");
    return;
  }
  for (const std::string& why : reasons_against_model(torchtitan_target, model))
    reasons.add(" ", why);
}

/// Of a model without a row there is a reason against the plan.
std::string base_text(const Model& model) {
  const TitanModel* known = find_titan_model(model);
  if (known == nullptr) return "";
  return fmt::format("MODULE, FLAVOR, FUNCTION = \"{}\", \"{}\", \"{}\"", known->module,
                     known->flavor, known->function);
}

std::string launch_text(const Plan& plan, const Cluster& cluster) {
  const int used = static_cast<int>(used_devices(plan).size());
  const int per_node = cluster.levels.empty() ? 1 : cluster.levels.back().count;
  const int processes = std::gcd(used, per_node);
  const int nodes = used / processes;
  return fmt::format(
      "torchrun --nnodes {} --nproc-per-node {}{} \\\n        -m torchtitan.train --module NAME "
      "--config plan",
      nodes, processes,
      nodes > 1 ? " --rdzv-backend c10d --rdzv-endpoint \"$MASTER_ADDR:29500\"" : "");
}

std::string titan_text(Reasons& reasons, const Plan& plan, const Model& model,
                       const Cluster& cluster) {
  require_family(reasons, model);
  require_plain(reasons, plan);
  require_usual_launching(reasons, plan);
  const Degrees degrees = even_degrees(reasons, plan);
  const std::int64_t samples = samples_per_replica(reasons, plan, degrees.data);
  const TitanSharding sharding = sharding_of(reasons, plan, degrees);
  const Parallelism& parallelism = plan.parallelism;
  if (plan.optimizer.kind != OptimizerKind::adamw) {
    reasons.add(" is configured with AdamW; the plan has ", to_string(plan.optimizer.kind));
  }
  if (plan.optimizer.gradient_bucket > 0) {
    reasons.add(
        " reduces a stage's gradients behind its last backward; plan without "
        "--gradient-bucket");
  }
  if (parallelism.expert_tensor > 1) {
    reasons.add(" does not cut experts over tensor-parallel peers; the plan does, over ",
                parallelism.expert_tensor);
  }
  const bool has_pipeline = degrees.pipeline > 1;
  const std::string_view dtype = dtype_of(reasons, plan.precision);
  const int blocks = decoder_layers(model).size();
  std::string text = fmt::format(
      "\"\"\"A plan of {} for torchtitan 0.3.0. With this file's folder on PYTHONPATH, and its "
      "name "
      "for\nNAME:\n\n    {}\n\"\"\"\n\n",
      model.name, launch_text(plan, cluster));
  text += "import importlib\nimport os\n\nfrom torchtitan.config import ParallelismConfig\n";
  text += "from torchtitan.distributed.activation_checkpoint import FullAC\n\n";
  text += base_text(model) + "\n" + (has_pipeline ? order_text(plan) : "") +
          "\nSTAGES = " + stages_text(reasons, plan, model) + "\n\n\n";
  text += "def plan():\n";
  text +=
      "    models = importlib.import_module(f\"torchtitan.models.{MODULE}\")\n"
      "    registry = importlib.import_module(f\"torchtitan.models.{MODULE}.config_registry\")\n"
      "    config = getattr(registry, FUNCTION)()\n"
      "    # The flavor as it is, without what the configuration converts to 8 bits.\n"
      "    config.model_spec = models.model_registry(FLAVOR)\n";
  text += fmt::format(
      "    blocks = len(config.model_spec.model.layers)\n"
      "    if blocks != {}:\n"
      "        raise ValueError(f\"the plan is for {} blocks, {{FLAVOR}} has {{blocks}}\")\n",
      blocks, blocks);
  text += "    config.parallelism = ParallelismConfig(\n";
  const auto add = [&](std::string_view name, const auto& value) {
    text += fmt::format("        {}={},\n", name, value);
  };
  add("data_parallel_replicate_degree", sharding.replicate);
  add("data_parallel_shard_degree", sharding.shard);
  add("fsdp_reshard_after_forward", fmt::format("\"{}\"", sharding.reshard));
  add("tensor_parallel_degree", degrees.tensor);
  add("enable_sequence_parallel", python_bool(parallelism.sequence));
  add("context_parallel_degree", degrees.context);
  add("expert_parallel_degree", parallelism.expert);
  add("pipeline_parallel_degree", degrees.pipeline);
  if (has_pipeline) {
    add("module_fqns_per_model_part", "STAGES");
    add("pipeline_parallel_schedule", fmt::format("\"{}\"", schedule_of(reasons, plan)));
    if (needs_file(plan)) {
      add("pipeline_parallel_schedule_csv",
          "os.path.splitext(os.path.abspath(__file__))[0] + \".csv\"");
      torch_order_csv(reasons, plan);
    }
    add("pipeline_parallel_microbatch_size", samples);
  }
  text += "    )\n";
  // Without a pipeline a microbatch is a step of accumulation.
  const std::int64_t local = has_pipeline ? samples * plan.batch.microbatches : samples;
  text += fmt::format("    config.training.local_batch_size = {}\n", local);
  text += fmt::format("    config.training.global_batch_size = {}\n", plan.batch.global);
  if (plan.batch.sequence > 0) {
    text += fmt::format("    config.training.seq_len = {}\n", plan.batch.sequence);
  }
  text += fmt::format("    config.training.mixed_precision_param = \"{}\"\n", dtype);
  text += fmt::format("    config.activation_checkpoint = {}\n",
                      checkpoints_text(reasons, plan, model));
  return text + "    return config\n";
}

}  // namespace

std::vector<std::string> reasons_against_torchtitan(const Plan& plan, const Model& model,
                                                    const Cluster& cluster) {
  Reasons reasons(titan_name);
  titan_text(reasons, plan, model, cluster);
  return reasons.sentences();
}

std::vector<ExportedFile> export_torchtitan(const LoadedPlan& loaded) {
  Reasons reasons(titan_name);
  std::vector<ExportedFile> files{
      {".py", titan_text(reasons, loaded.plan, loaded.profile.model, loaded.cluster)}};
  const bool has_order = pipeline_devices(loaded.plan) > 1 && needs_file(loaded.plan);
  if (has_order) files.push_back({".csv", torch_order_csv(reasons, loaded.plan)});
  reasons.require_none();
  return files;
}

}  // namespace stagecraft
