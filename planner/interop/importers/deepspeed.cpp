// DeepSpeed's PipelineModule: its `parts`, alone or with what its ds_config says.
//
//   [0, 7, 14, 21, 26]
//
//   {"parts": [0, 7, 14, 21, 26], "model_parallel_size": 2, "world_size": 8,
//   "activation_checkpoint_interval": 0,
//    "ds_config": {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 16,
//                  "zero_optimization": {"stage": 1}, "bf16": {"enabled": true},
//                  "optimizer": {"type": "AdamW"}}}
//
// Stage s has the layers [parts[s], parts[s + 1]), which inside may be none. Ranks are on the axes
// pipe, data, model, the last one fastest (`deepspeed/runtime/pipe/topology.py`); the schedule is
// 1F1B with a flush
// (`TrainSchedule`). A microbatch is train_micro_batch_size_per_gpu samples on each replica. The
// members of a ds_config may also stand beside "parts"; what of it changes a step but plans do not
// have (offloading, buckets, …), and what is no member of one, is listed with its line. "auto",
// which Hugging Face's trainer fills in, says nothing. An interval of activation checkpoints of 1
// keeps the input of each layer, one of a whole stage that of the stage.
//
// A ds_config without parts is what people have who train without a pipeline: DeepSpeed's engine
// takes the model whole. What it leaves open, and "auto" does, the command line says.

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "planner/costs/stage_recompute.hpp"
#include "planner/interop/importers.hpp"
#include "planner/interop/importers/common.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

std::vector<int> read_parts(const Json& json, int layers) {
  std::vector<int> parts;
  for (const Json& element : json.elements()) parts.push_back(element.small_integer(0, INT32_MAX));
  if (parts.size() < 2 || parts.front() != 0) {
    json.fail(
        "expected the first layer of each stage, 0 first, and the number of layers last, for "
        "example [0, 7, 14]");
  }
  for (std::size_t s = 0; s + 1 < parts.size(); ++s) {
    if (parts[s + 1] < parts[s]) {
      json[s + 1].fail(concat("expected at least ", parts[s], ", found ", parts[s + 1]));
    }
    const bool is_inside = s > 0 && s + 2 < parts.size();
    if (parts[s + 1] > parts[s] || is_inside) continue;
    json[s + 1].fail(concat("stage ", s, " has no layers; the first and the last stage of a plan ",
                            "have at least one"),
                     {"use fewer stages, or another partition_method"});
  }
  if (parts.back() != layers) {
    json[parts.size() - 1].fail(
        concat("the parts have ", parts.back(), " layers, but the model has ", layers));
  }
  return parts;
}

bool is_auto(const Json& json) {
  return json.is_string() && json.string() == "auto";
}

/// The member of the ds_config, wherever it stands.
std::optional<Json> find(const Json& json, std::string_view name) {
  if (!json.is_object()) return {};
  std::optional<Json> member;
  if (json.contains(name)) {
    member = json[name];
  } else if (json.contains("ds_config") && json["ds_config"].contains(name)) {
    member = json["ds_config"][name];
  }
  return member && is_auto(*member) ? std::nullopt : member;
}

std::optional<std::int64_t> find_count(const Json& json, std::string_view name) {
  const auto member = find(json, name);
  if (!member) return {};
  return member->integer(1, most_samples);
}

int find_devices(const Json& json, std::string_view name, int otherwise) {
  const auto member = find(json, name);
  return member ? member->small_integer(1, most_devices) : otherwise;
}

bool is_enabled(const Json& json, std::string_view name) {
  const auto member = find(json, name);
  return member && member->contains("enabled") && !is_auto((*member)["enabled"]) &&
         (*member)["enabled"].boolean();
}

std::optional<Precision> precision_of(const Json& json) {
  if (is_enabled(json, "bf16") && is_enabled(json, "fp16")) {
    fail("DeepSpeed refuses fp16 and bf16 at once");
  }
  if (is_enabled(json, "bf16")) return Precision::bfloat16;
  if (is_enabled(json, "fp16")) return Precision::float16;
  return {};
}

/// The stage of ZeRO, if it is said.
std::optional<Json> zero_stage(const Json& json) {
  const auto zero = find(json, "zero_optimization");
  if (!zero || !zero->contains("stage") || is_auto((*zero)["stage"])) return {};
  return (*zero)["stage"];
}

bool has_parts(const Json& json) {
  return json.is_array() || json.contains("parts");
}

std::optional<Sharding> sharding_of(const Json& json) {
  const auto stage = zero_stage(json);
  if (!stage) return {};
  const auto level = static_cast<std::size_t>(stage->integer(0, 3));
  constexpr std::array levels{Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3};
  if (shards_gradients(levels[level]) && has_parts(json)) {
    stage->fail(concat("DeepSpeed refuses ZeRO-", level, " with pipelines; expected 0 or 1"),
                {"without \"parts\" there is no pipeline"});
  }
  return levels[level];
}

/// Whether it is a ds_config, rather than parts alone.
bool has_config(const Json& json) {
  constexpr std::array members{"train_batch_size", "train_micro_batch_size_per_gpu",
                               "gradient_accumulation_steps", "zero_optimization", "optimizer"};
  if (!json.is_object()) return false;
  const Json config = json.contains("ds_config") ? json["ds_config"] : json;
  return config.is_object() &&
         std::ranges::any_of(members, [&](const char* member) { return config.contains(member); });
}

/// What it says that "auto" would leave to Hugging Face's trainer.
bool leaves_to_trainer(const Json& json, std::string_view name) {
  const Json config = json.contains("ds_config") ? json["ds_config"] : json;
  if (!config.contains(name)) return false;
  const Json member = config[name];
  return is_auto(member) ||
         (member.is_object() && member.contains("enabled") && is_auto(member["enabled"]));
}

/// Without bf16 and fp16 DeepSpeed trains in fp32.
bool trains_in_fp32(const Json& json) {
  return has_config(json) && !is_enabled(json, "bf16") && !is_enabled(json, "fp16") &&
         !leaves_to_trainer(json, "bf16") && !leaves_to_trainer(json, "fp16") &&
         !is_enabled(json, "amp") && !is_enabled(json, "torch_autocast");
}

std::optional<OptimizerKind> optimizer_of(const Json& json) {
  const auto optimizer = find(json, "optimizer");
  if (!optimizer || !optimizer->contains("type") || is_auto((*optimizer)["type"])) return {};
  const Json type = (*optimizer)["type"];
  const std::string name = lower_case(type.string());
  if (name == "adam" || name == "adamw") return OptimizerKind::adamw;
  if (name == "sgd") return OptimizerKind::sgd;
  type.fail(concat("expected Adam, AdamW or SGD, found \"", type.string(), "\""));
}

PlanQuestion with_config(PlanQuestion question, const Json& json) {
  PlanOptions& options = question.options;
  options.precision =
      said_once(precision_of(json), "a precision", options.precision, "--precision");
  options.sharding =
      said_once(sharding_of(json), "zero_optimization", options.sharding, "--sharding");
  options.optimizer =
      said_once(optimizer_of(json), "an optimizer", options.optimizer, "--optimizer");
  if (!options.replicas.empty()) {
    fail_usage("replicas follow from the parts and the number of devices; leave --replicas away");
  }
  return question;
}

bool says_batch(const Json& json) {
  return find_count(json, "train_batch_size") ||
         (find_count(json, "train_micro_batch_size_per_gpu") &&
          find_count(json, "gradient_accumulation_steps"));
}

/// DeepSpeed wants two of the batch, the micro-batch and the steps of accumulation, and that they
/// multiply up.
Batch read_deepspeed_batch(const Json& json, const PlanQuestion& question, int replicas) {
  const auto per_replica = find_count(json, "train_micro_batch_size_per_gpu");
  const auto steps = find_count(json, "gradient_accumulation_steps");
  std::optional<std::int64_t> microbatch;
  if (per_replica) microbatch = *per_replica * replicas;
  microbatch = said_once(microbatch, "train_micro_batch_size_per_gpu", question.options.microbatch,
                         "--microbatch");
  std::optional<std::int64_t> global = said_once(
      find_count(json, "train_batch_size"), "train_batch_size", question.options.batch, "--batch");
  if (!global && microbatch && steps) global = *microbatch * std::min(*steps, most_samples);
  if (!microbatch && global && steps && *global % *steps == 0) microbatch = *global / *steps;
  const Batch batch = batch_of(question, global, microbatch, replicas);
  if (steps && batch.microbatches != *steps) {
    fail("DeepSpeed refuses: a batch of ", batch.global, " is not ", *steps,
         " steps of accumulation times ", batch.microbatch, " samples");
  }
  return batch;
}

/// What stages do again: as a whole, or so many of their layers at a time.
struct DeepspeedCheckpoints {
  Recompute stages = Recompute::none;
  int run = 0;  ///< layers; 0: none
};

DeepspeedCheckpoints read_deepspeed_checkpoints(const Json& json, const std::vector<int>& parts) {
  const auto interval = find(json, "activation_checkpoint_interval");
  if (!interval) return {};
  const int layers = interval->small_integer(0, INT32_MAX);
  int most = 0;
  for (std::size_t s = 0; s + 1 < parts.size(); ++s) {
    most = std::max(most, parts[s + 1] - parts[s]);
  }
  if (layers >= most && layers > 0) return {.stages = Recompute::full};
  return {.run = layers};
}

// --- What of it goes into the plan ---

/// The longest row that fits counts.
constexpr std::array deepspeed_members{
    KeyMeaning{"parts", Meaning::taken},
    KeyMeaning{"world_size", Meaning::taken},
    KeyMeaning{"launch", Meaning::no_bearing},
    KeyMeaning{"model_parallel_size", Meaning::taken},
    KeyMeaning{"sequence_parallel", Meaning::taken},
    KeyMeaning{"activation_checkpoint_interval", Meaning::taken},
    KeyMeaning{"train_batch_size", Meaning::taken},
    KeyMeaning{"train_micro_batch_size_per_gpu", Meaning::taken},
    KeyMeaning{"gradient_accumulation_steps", Meaning::taken},
    KeyMeaning{"zero_optimization.stage", Meaning::taken},
    KeyMeaning{"zero_optimization.*", Meaning::not_modelled},
    KeyMeaning{"bf16.enabled", Meaning::taken},
    KeyMeaning{"fp16.enabled", Meaning::taken},
    KeyMeaning{"bf16.*", Meaning::no_bearing},
    KeyMeaning{"fp16.*", Meaning::no_bearing},
    KeyMeaning{"optimizer.type", Meaning::taken},
    KeyMeaning{"optimizer.*", Meaning::no_bearing},
    KeyMeaning{"scheduler.*", Meaning::no_bearing},
    KeyMeaning{"gradient_clipping", Meaning::no_bearing},
    KeyMeaning{"steps_per_print", Meaning::no_bearing},
    KeyMeaning{"wall_clock_breakdown", Meaning::no_bearing},
    KeyMeaning{"dump_state", Meaning::no_bearing},
    KeyMeaning{"memory_breakdown", Meaning::no_bearing},
    KeyMeaning{"seed", Meaning::no_bearing},
    KeyMeaning{"zero_allow_untested_optimizer", Meaning::no_bearing},
    KeyMeaning{"zero_force_ds_cpu_optimizer", Meaning::no_bearing},
    KeyMeaning{"tensorboard.*", Meaning::no_bearing},
    KeyMeaning{"wandb.*", Meaning::no_bearing},
    KeyMeaning{"csv_monitor.*", Meaning::no_bearing},
    KeyMeaning{"comet.*", Meaning::no_bearing},
    KeyMeaning{"comms_logger.*", Meaning::no_bearing},
    KeyMeaning{"flops_profiler.*", Meaning::no_bearing},
    KeyMeaning{"checkpoint.*", Meaning::no_bearing},
    KeyMeaning{"elasticity.*", Meaning::no_bearing},
    KeyMeaning{"autotuning.*", Meaning::no_bearing},
    KeyMeaning{"disable_allgather", Meaning::not_modelled},
    KeyMeaning{"prescale_gradients", Meaning::no_bearing},
    KeyMeaning{"gradient_predivide_factor", Meaning::no_bearing},
    KeyMeaning{"communication_data_type", Meaning::not_modelled},
    KeyMeaning{"data_types.*", Meaning::not_modelled},
    KeyMeaning{"sparse_gradients", Meaning::not_modelled},
    KeyMeaning{"sparse_attention.*", Meaning::not_modelled},
    KeyMeaning{"amp.*", Meaning::not_modelled},
    KeyMeaning{"torch_autocast.*", Meaning::not_modelled},
    KeyMeaning{"aio.*", Meaning::not_modelled},
    KeyMeaning{"activation_checkpointing.*", Meaning::not_modelled},
    KeyMeaning{"pipeline.*", Meaning::not_modelled},
    KeyMeaning{"curriculum_learning.*", Meaning::not_modelled},
    KeyMeaning{"data_efficiency.*", Meaning::not_modelled},
    KeyMeaning{"progressive_layer_drop.*", Meaning::not_modelled},
    KeyMeaning{"compression_training.*", Meaning::not_modelled},
    KeyMeaning{"quantize_training.*", Meaning::not_modelled},
    KeyMeaning{"tensor_parallel.*", Meaning::not_modelled},
    KeyMeaning{"hybrid_engine.*", Meaning::not_modelled},
    KeyMeaning{"compile.*", Meaning::not_modelled},
};

/// What is off changes nothing.
bool is_off(const Json& json) {
  if (json.is_boolean()) return !json.boolean();
  return json.is_null() || is_auto(json) ||
         (json.is_object() && json.contains("enabled") && json["enabled"].is_boolean() &&
          !json["enabled"].boolean());
}

void list_members(const Json& json, const std::string& section, ImportedPlan& imported) {
  for (const std::string& name : json.names()) {
    const Json member = json[name];
    if (section.empty() && name == "ds_config") {
      list_members(member, "", imported);
      continue;
    }
    const std::string path = section.empty() ? name : concat(section, ".", name);
    if (member.is_object() && !is_off(member)) {
      list_members(member, path, imported);
      continue;
    }
    const std::string value = member.raw().dump();
    ReadText text{path + ": " + (value.size() > 60 ? "…" : value), place_of(member)};
    list_text(imported, meaning_of(deepspeed_members, path), is_off(member), std::move(text));
  }
}

}  // namespace

bool looks_like_deepspeed(std::string_view content) {
  const std::size_t start = content.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return false;
  if (content[start] == '[') {
    // Nothing but numbers: other lists are traces and the like.
    const std::string_view beginning = content.substr(start, 1000);
    return beginning.find_first_not_of("[]0123456789, \t\r\n") == std::string_view::npos;
  }
  if (content[start] != '{') return false;
  constexpr std::array members{"\"parts\"", "\"zero_optimization\"",
                               "\"train_micro_batch_size_per_gpu\""};
  return std::ranges::any_of(members, [&](std::string_view member) {
    return content.find(member) != std::string_view::npos;
  });
}

ImportedPlan import_deepspeed(std::string_view content, const std::string& file,
                              const PlanQuestion& question) {
  const Json json = Json::parse(std::string(content), file);
  const bool is_whole = !has_parts(json);
  const int layers = static_cast<int>(question.profile.model.layers.size());
  const std::vector<int> parts = is_whole
                                     ? std::vector<int>{0, layers}
                                     : read_parts(json.is_array() ? json : json["parts"], layers);
  PlanQuestion settled = with_config(question, json);
  const bool is_plain_fp32 = !settled.options.precision && trains_in_fp32(json);
  if (is_plain_fp32) settled.options.precision = Precision::float32;
  ImportedPlan imported{.plan = begin_plan(settled, Framework::torch)};
  if (is_plain_fp32) {
    imported.notes.emplace_back(
        "neither bf16 nor fp16 is enabled: DeepSpeed trains in fp32; --precision says otherwise");
  }
  if (is_whole && !shards_gradients(imported.plan.optimizer.sharding)) {
    imported.notes.emplace_back(
        "without \"parts\" there is no pipeline: each device has the model whole; the boundaries "
        "that PipelineModule prints go in as \"parts\": [0, 7, 14]");
  }
  if (json.is_object()) list_members(json, "", imported);
  require_mostly_known(imported, "DeepSpeed");
  const Degrees degrees =
      degrees_of("DeepSpeed", find_devices(json, "world_size", device_count(question.cluster)),
                 static_cast<int>(parts.size()) - 1, find_devices(json, "model_parallel_size", 1));
  const DeepspeedCheckpoints checkpoints = read_deepspeed_checkpoints(json, parts);
  std::vector<ForeignStage> stages;
  for (int s = 0; s < degrees.pipeline; ++s) {
    const auto at = static_cast<std::size_t>(s);
    stages.push_back({.layers = layers_between(parts[at], parts[at + 1]),
                      .replicas = degrees.data,
                      .tensor_parallel = degrees.tensor,
                      .recompute = checkpoints.stages,
                      .devices = ranks_of(degrees, s)});
  }
  set_stages(imported.plan, stages);
  for (Stage& stage : imported.plan.stages) {
    if (checkpoints.run > 0) recompute_in_runs(stage, stage.layers, checkpoints.run);
  }
  const auto sequence = find(json, "sequence_parallel");
  imported.plan.parallelism.sequence = sequence && sequence->boolean() && degrees.tensor > 1;
  set_schedule(imported.plan, schedule_name(question, "1f1b"));
  imported.plan.batch = read_deepspeed_batch(json, settled, degrees.data);
  return imported;
}

std::string open_in_deepspeed(std::string_view content, const std::string& file) {
  const Json json = Json::parse(std::string(content), file);
  return says_batch(json) ? "" : "--batch N";
}

}  // namespace stagecraft
