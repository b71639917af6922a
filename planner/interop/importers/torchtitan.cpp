// torchtitan's job configuration, as its releases before 0.3 read it: TOML, of which keys that are
// left out have torchtitan's defaults (torchtitan/config/job_config.py of 0.2).
//
//   [model]
//   name = "llama3"
//   flavor = "70B"
//   [training]
//   local_batch_size = 8
//   seq_len = 8192
//   [parallelism]
//   data_parallel_shard_degree = -1           # what devices are left over
//   tensor_parallel_degree = 8
//   pipeline_parallel_degree = 4
//   pipeline_parallel_schedule = "Interleaved1F1B"
//   [activation_checkpoint]
//   mode = "selective"                        # none, full; or every so many-th block:
//   selective_ac_option = "2"
//
// The releases before 0.1 had degrees in [training] and [experimental], and called the local batch
// "batch_size"; their files are read, too. Where stages begin, torchtitan computes as below
// (torchtitan/distributed/pipeline_parallel.py): embedding and head count as layers of their own.
// FSDP shards what ZeRO-3 does; behind a pipeline it keeps parameters between microbatches, and
// sums gradients once, which is ZeRO-1. DDP sends gradients in buckets of 100 MiB beside the
// backward.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "planner/interop/importers.hpp"
#include "planner/interop/importers/common.hpp"
#include "planner/interop/importers/toml_settings.hpp"
#include "planner/interop/torch_names.hpp"
#include "planner/plan/layer_names.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// What a model is called here.
struct TitanFlavor {
  std::string_view name, flavor, model;
};
constexpr std::array titan_flavors{
    TitanFlavor{"llama3", "8B", "llama3-8b"},
    TitanFlavor{"llama3", "70B", "llama3-70b"},
    TitanFlavor{"llama3", "405B", "llama3-405b"},
    TitanFlavor{"llama2", "7B", "llama2-7b"},
    TitanFlavor{"llama2", "13B", "llama2-13b"},
    TitanFlavor{"llama2", "70B", "llama2-70b"},
    TitanFlavor{"deepseek_v3", "16B", "deepseek-v2-lite"},
    TitanFlavor{"deepseek_v3", "671B", "deepseek-v3"},
};

// --- What of it goes into the plan ---

/// What multiplies in 8 bits is costed so.
constexpr std::string_view all_but_head = R"([ "output" ])";

/// The longest row that fits counts.
constexpr std::array titan_keys{
    KeyMeaning{"model.name", Meaning::taken},
    KeyMeaning{"model.flavor", Meaning::taken},
    KeyMeaning{"model.converters", Meaning::taken},
    KeyMeaning{"model.hf_assets_path", Meaning::no_bearing},
    KeyMeaning{"model.tokenizer*", Meaning::no_bearing},
    KeyMeaning{"model.print_after_conversion", Meaning::no_bearing},
    KeyMeaning{"training.local_batch_size", Meaning::taken},
    KeyMeaning{"training.batch_size", Meaning::taken},
    KeyMeaning{"training.global_batch_size", Meaning::taken},
    KeyMeaning{"training.seq_len", Meaning::taken},
    KeyMeaning{"training.mixed_precision_param", Meaning::taken},
    KeyMeaning{"training.mixed_precision_reduce", Meaning::not_modelled, "float32"},
    KeyMeaning{"training.dtype", Meaning::not_modelled, "float32"},
    KeyMeaning{"training.enable_cpu_offload", Meaning::not_modelled},
    KeyMeaning{"training.compile", Meaning::not_modelled},
    KeyMeaning{"training.steps", Meaning::no_bearing},
    KeyMeaning{"training.max_norm", Meaning::no_bearing},
    KeyMeaning{"training.warmup_steps", Meaning::no_bearing},
    KeyMeaning{"training.dataset*", Meaning::no_bearing},
    KeyMeaning{"training.dataloader.*", Meaning::no_bearing},
    KeyMeaning{"training.gc_*", Meaning::no_bearing},
    KeyMeaning{"training.seed", Meaning::no_bearing},
    KeyMeaning{"training.deterministic", Meaning::no_bearing},
    KeyMeaning{"training.data_parallel_*", Meaning::taken},
    KeyMeaning{"training.tensor_parallel_degree", Meaning::taken},
    KeyMeaning{"experimental.pipeline_parallel_*", Meaning::taken},
    KeyMeaning{"experimental.context_parallel_degree", Meaning::taken},
    KeyMeaning{"experimental.enable_async_tensor_parallel", Meaning::not_modelled},
    KeyMeaning{"experimental.custom_*", Meaning::no_bearing},
    KeyMeaning{"parallelism.data_parallel_*", Meaning::taken},
    KeyMeaning{"parallelism.tensor_parallel_degree", Meaning::taken},
    KeyMeaning{"parallelism.fsdp_reshard_after_forward", Meaning::taken},
    KeyMeaning{"parallelism.pipeline_parallel_*", Meaning::taken},
    KeyMeaning{"parallelism.pipeline_parallel_expert_parallel_overlap", Meaning::no_bearing},
    KeyMeaning{"parallelism.module_fqns_per_model_part", Meaning::taken},
    KeyMeaning{"parallelism.context_parallel_degree", Meaning::taken},
    KeyMeaning{"parallelism.context_parallel_load_balancer", Meaning::not_modelled, "headtail"},
    KeyMeaning{"parallelism.context_parallel_rotate_method", Meaning::not_modelled, "allgather"},
    KeyMeaning{"parallelism.expert_parallel_degree", Meaning::taken},
    KeyMeaning{"parallelism.expert_tensor_parallel_degree", Meaning::taken},
    KeyMeaning{"parallelism.expert_parallel_comm_backend", Meaning::not_modelled, "standard"},
    KeyMeaning{"parallelism.disable_loss_parallel", Meaning::not_modelled},
    KeyMeaning{"parallelism.enable_async_tensor_parallel", Meaning::not_modelled},
    KeyMeaning{"parallelism.enable_compiled_autograd", Meaning::not_modelled},
    KeyMeaning{"activation_checkpoint.mode", Meaning::taken},
    KeyMeaning{"activation_checkpoint.selective_ac_option", Meaning::taken},
    KeyMeaning{"activation_checkpoint.*", Meaning::no_bearing},
    KeyMeaning{"optimizer.name", Meaning::taken},
    KeyMeaning{"optimizer.implementation", Meaning::not_modelled, "fused"},
    KeyMeaning{"optimizer.fused", Meaning::no_bearing},
    KeyMeaning{"optimizer.early_step_in_backward", Meaning::not_modelled},
    KeyMeaning{"optimizer.lr", Meaning::no_bearing},
    KeyMeaning{"optimizer.eps", Meaning::no_bearing},
    KeyMeaning{"optimizer.beta*", Meaning::no_bearing},
    KeyMeaning{"optimizer.weight_decay", Meaning::no_bearing},
    KeyMeaning{"compile.enable", Meaning::not_modelled},
    KeyMeaning{"compile.*", Meaning::no_bearing},
    KeyMeaning{"float8.enable_float8_linear", Meaning::taken},
    KeyMeaning{"float8.*", Meaning::not_modelled},
    KeyMeaning{"float8.filter_fqns", Meaning::not_modelled, all_but_head},
    KeyMeaning{"float8.precompute_*", Meaning::no_bearing},
    KeyMeaning{"mx.*", Meaning::not_modelled},
    KeyMeaning{"quantize.*", Meaning::not_modelled},
    KeyMeaning{"quantize.linear.float8.filter_fqns", Meaning::not_modelled, all_but_head},
    KeyMeaning{"quantize.linear.float8.precompute_*", Meaning::no_bearing},
    KeyMeaning{"fault_tolerance.*", Meaning::not_modelled},
    KeyMeaning{"job.*", Meaning::no_bearing},
    KeyMeaning{"profiling.*", Meaning::no_bearing},
    KeyMeaning{"metrics.*", Meaning::no_bearing},
    KeyMeaning{"checkpoint.*", Meaning::no_bearing},
    KeyMeaning{"lr_scheduler.*", Meaning::no_bearing},
    KeyMeaning{"validation.*", Meaning::no_bearing},
    KeyMeaning{"comm.*", Meaning::no_bearing},
    KeyMeaning{"debug.*", Meaning::no_bearing},
    KeyMeaning{"memory_estimation.*", Meaning::no_bearing},
};

class TitanSettings {
 public:
  TitanSettings(std::string_view content, const std::string& file)
      : file_(file), settings_(read_toml_settings(content, file)) {}

  const std::vector<TomlSetting>& all() const { return settings_; }

  /// By its path; a degree also where older releases had it.
  const TomlSetting* find(std::string_view path) const {
    const auto found = std::ranges::find(settings_, path, &TomlSetting::path);
    return found == settings_.end() ? nullptr : &*found;
  }
  const TomlSetting* parallelism(std::string_view key) const {
    for (const std::string_view table : {"parallelism.", "training.", "experimental."}) {
      if (const TomlSetting* setting = find(concat(table, key))) return setting;
    }
    return nullptr;
  }

  std::string word(const TomlSetting* setting, std::string_view otherwise) const {
    if (setting == nullptr) return std::string(otherwise);
    if (const auto* value = std::get_if<std::string>(&setting->value)) return *value;
    fail_at(*setting, "expected a word in quotes");
  }
  std::int64_t number(const TomlSetting* setting, std::int64_t otherwise, std::int64_t least,
                      std::int64_t most) const {
    if (setting == nullptr) return otherwise;
    const auto* value = std::get_if<std::int64_t>(&setting->value);
    if (value == nullptr || *value < least || *value > most)
      fail_at(*setting, concat("expected a whole number from ", least, " to ", most));
    return *value;
  }
  int degree(std::string_view key) const {
    return static_cast<int>(number(parallelism(key), 1, 1, most_devices));
  }
  bool is_on(std::string_view path) const {
    const TomlSetting* setting = find(path);
    const auto* value = setting == nullptr ? nullptr : std::get_if<bool>(&setting->value);
    return value != nullptr && *value;
  }
  [[noreturn]] void fail_at(const TomlSetting& setting, const std::string& message) const {
    throw Error(ErrorKind::input, concat(setting.path, ": ", message, ", found ", setting.text),
                setting.place);
  }
  [[noreturn]] void refuse(const TomlSetting* setting, const std::string& why) const {
    throw Error(ErrorKind::input, concat("torchtitan refuses: ", why),
                setting == nullptr ? SourcePlace{file_, 0, 0} : setting->place);
  }

 private:
  const std::string& file_;
  std::vector<TomlSetting> settings_;
};

/// Degrees of its mesh, in which experts borrow from the others.
struct TitanMesh {
  int replicate = 1, shard = 1, context = 1, tensor = 1, pipeline = 1, expert = 1;
  int replicas() const { return replicate * shard; }
  bool has_fsdp() const { return shard > 1 || context > 1; }
};

TitanMesh read_titan_mesh(const TitanSettings& settings, int devices) {
  TitanMesh mesh{.replicate = settings.degree("data_parallel_replicate_degree"),
                 .context = settings.degree("context_parallel_degree"),
                 .tensor = settings.degree("tensor_parallel_degree"),
                 .pipeline = settings.degree("pipeline_parallel_degree"),
                 .expert = settings.degree("expert_parallel_degree")};
  const TomlSetting* shard = settings.parallelism("data_parallel_shard_degree");
  if (shard == nullptr) shard = settings.parallelism("data_parallel_degree");
  const auto said = static_cast<int>(settings.number(shard, -1, -1, most_devices));
  if (said == 0) settings.fail_at(*shard, "expected -1, for the devices left over, or 1 and above");
  const std::int64_t others = std::int64_t{mesh.pipeline} * mesh.tensor * mesh.context;
  if (devices % others != 0) {
    const TomlSetting* first = settings.parallelism(mesh.pipeline > 1 ? "pipeline_parallel_degree"
                                                    : mesh.tensor > 1 ? "tensor_parallel_degree"
                                                                      : "context_parallel_degree");
    settings.refuse(first, concat("pipeline, tensor and context parallelism of ", mesh.pipeline,
                                  " x ", mesh.tensor, " x ", mesh.context,
                                  " do not divide the cluster's ", devices, " devices"));
  }
  const auto replicas = static_cast<int>(devices / others);
  if (said < 0 && replicas % mesh.replicate == 0) {
    mesh.shard = replicas / mesh.replicate;
  } else {
    mesh.shard = said;
  }
  if (std::int64_t{mesh.replicate} * mesh.shard != replicas) {
    settings.refuse(shard, concat("its degrees do not multiply to the cluster's ", devices,
                                  " devices: ", replicas, " replicas are left for ",
                                  "data_parallel_replicate_degree ", mesh.replicate,
                                  said < 0 ? "" : concat(" x data_parallel_shard_degree ", said)));
  }
  // torchtitan/models/llama3/infra/parallelize.py
  if (!mesh.has_fsdp() && mesh.replicate > 1 && mesh.replicate != devices) {
    settings.refuse(settings.parallelism("data_parallel_replicate_degree"),
                    "DDP goes without other parallelism; data_parallel_shard_degree is 1");
  }
  return mesh;
}

/// What the plan shards, or the flag --sharding in its place.
Sharding sharding_of(const TitanSettings& settings, const TitanMesh& mesh, bool accumulates,
                     ImportedPlan& imported) {
  if (!mesh.has_fsdp()) return Sharding::none;
  const TomlSetting* policy = settings.parallelism("fsdp_reshard_after_forward");
  const std::string word = settings.word(policy, "default");
  if (word != "default" && word != "always" && word != "never")
    settings.fail_at(*policy, "expected default, always or never");
  const bool gathers_again = word == "always" || (word == "default" && mesh.pipeline == 1);
  if (mesh.pipeline == 1 && gathers_again) return Sharding::zero3;
  if (mesh.pipeline == 1) return accumulates ? Sharding::zero2 : Sharding::zero1;
  if (gathers_again) {
    imported.notes.emplace_back(
        "parameters are gathered again for each microbatch of the pipeline, and gradients are "
        "summed once, for which plans have no word: this one keeps parameters (zero1)");
  }
  return Sharding::zero1;
}

/// Under TP or PP alone it computes in the parameters' own type (torchtitan/distributed/utils.py).
Precision precision_of(const TitanSettings& settings, const TitanMesh& mesh,
                       ImportedPlan& imported) {
  const TomlSetting* setting = settings.find("training.mixed_precision_param");
  const std::string word = settings.word(setting, "bfloat16");
  if (word != "bfloat16" && word != "float32")
    settings.fail_at(*setting, "expected bfloat16 or float32");
  const bool is_mixed =
      word == "bfloat16" && (mesh.has_fsdp() || (mesh.tensor == 1 && mesh.pipeline == 1));
  if (word == "bfloat16" && !is_mixed) {
    imported.notes.emplace_back(
        "torchtitan computes in mixed precision with FSDP, or without tensor and pipeline "
        "parallelism: this run is in fp32");
  }
  return is_mixed ? Precision::bfloat16 : Precision::float32;
}

/// Converters swap modules for those that multiply in 8 bits.
bool multiplies_in_8_bits(const TitanSettings& settings) {
  if (settings.is_on("float8.enable_float8_linear")) return true;
  const TomlSetting* converters = settings.find("model.converters");
  if (converters == nullptr) return false;
  const auto* words = std::get_if<std::vector<std::string>>(&converters->value);
  if (words == nullptr) settings.fail_at(*converters, "expected a list of words in quotes");
  return std::ranges::any_of(*words, [](const std::string& word) {
    return word == "float8" || word == "mx" || word.starts_with("quantize.linear.");
  });
}

struct TitanBatch {
  std::int64_t global = 0;
  std::int64_t microbatch = 1;  ///< on each replica
  std::int64_t steps = 1;       ///< of accumulation
};

TitanBatch read_titan_batch(const TitanSettings& settings, const TitanMesh& mesh) {
  const TomlSetting* local_setting = settings.find("training.local_batch_size");
  if (local_setting == nullptr) local_setting = settings.find("training.batch_size");
  const std::int64_t local = settings.number(local_setting, 8, 1, most_samples);
  const std::int64_t at_once = local * mesh.replicas();
  const TomlSetting* global = settings.find("training.global_batch_size");
  const std::int64_t said = settings.number(global, -1, -1, most_samples);
  if (said == 0 || (said > 0 && said % at_once != 0)) {
    settings.refuse(global, concat("a global batch of ", said, " is no multiple of ", local,
                                   " samples on each of ", mesh.replicas(), " replicas"));
  }
  TitanBatch batch{.global = said > 0 ? said : at_once, .microbatch = local};
  batch.steps = batch.global / at_once;
  if (mesh.pipeline == 1) return batch;
  // Before 0.1, as many microbatches as ranks unless said.
  const TomlSetting* count = settings.find("experimental.pipeline_parallel_microbatches");
  const TomlSetting* size = settings.parallelism("pipeline_parallel_microbatch_size");
  batch.microbatch = count != nullptr
                         ? local / std::min(local, settings.number(count, 1, 1, most_samples))
                         : settings.number(size, 1, 1, most_samples);
  if (local % batch.microbatch == 0) return batch;
  settings.refuse(
      count != nullptr ? count : size,
      concat("a local batch of ", local, " is no multiple of microbatches of ", batch.microbatch));
}

// --- Stages ---

/// One for each rank, or two, unless layers per stage say otherwise.
int count_titan_stages(const TitanSettings& settings, const ScheduleKind& schedule, int pipeline,
                       int effective_layers) {
  const bool is_single = schedule.placement == StagePlacement::linear;
  const TomlSetting* each = settings.parallelism("pipeline_parallel_layers_per_stage");
  if (each == nullptr) return pipeline * (is_single ? 1 : 2);
  const auto layers = static_cast<int>(settings.number(each, 1, 1, most_devices));
  const int stages = (effective_layers + layers - 1) / layers;
  if (stages % pipeline != 0) {
    settings.refuse(each, concat(stages, " stages of ", layers, " layers are no multiple of ",
                                 pipeline, " pipeline ranks"));
  }
  if (is_single != (stages == pipeline)) {
    settings.refuse(each, concat(schedule.name, is_single ? " has one stage" : " has two or more",
                                 " on each rank; ", stages, " stages of ", layers, " layers are ",
                                 stages / pipeline, " on each of ", pipeline));
  }
  return stages;
}

/// Embedding and head weigh so many layers; what is left over goes to the first stages.
std::vector<std::vector<std::string>> divided_by_titan(const TitanSettings& settings,
                                                       const ScheduleKind& schedule, int pipeline,
                                                       int layers) {
  const auto weight = [&](std::string_view key) {
    return static_cast<int>(settings.number(settings.parallelism(key), 1, 0, most_devices));
  };
  const int first = weight("pipeline_parallel_first_stage_less_layers");
  const int last = weight("pipeline_parallel_last_stage_less_layers");
  const int effective = layers + first + last;
  const int stages = count_titan_stages(settings, schedule, pipeline, effective);
  const int each = effective / stages;
  if (each < std::max({first, last, 1})) {
    settings.refuse(settings.parallelism("pipeline_parallel_degree"),
                    concat(layers, " layers are too few for ", stages, " stages"));
  }
  std::vector<std::vector<std::string>> names(static_cast<std::size_t>(stages));
  int next = 0;
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<std::string>& own = names[static_cast<std::size_t>(stage)];
    int count = each + (stage < effective % stages ? 1 : 0);
    if (stage == 0) {
      own.emplace_back("tok_embeddings");
      count -= first;
    } else if (stage == stages - 1) {
      count -= last;
    }
    for (; count > 0 && next < layers; --count) own.push_back(concat("layers.", next++));
  }
  for (const char* name : {"norm", "output"}) names.back().emplace_back(name);
  return names;
}

/// Each part's modules, as the file lists them, or as torchtitan divides the model.
nlohmann::ordered_json stages_of(const TitanSettings& settings, const ScheduleKind& schedule,
                                 const TitanMesh& mesh, const Model& model) {
  nlohmann::ordered_json json;
  const TomlSetting* parts = settings.parallelism("module_fqns_per_model_part");
  const TomlSetting* points = settings.parallelism("pipeline_parallel_split_points");
  if (parts != nullptr) {
    const auto* lists = std::get_if<std::vector<std::vector<std::string>>>(&parts->value);
    if (lists == nullptr) settings.fail_at(*parts, "expected a list of lists of modules' names");
    json["stages"] = *lists;
    return json;
  }
  if (points != nullptr) {
    const auto* names = std::get_if<std::vector<std::string>>(&points->value);
    if (names == nullptr) settings.fail_at(*points, "expected a list of modules' names");
    if (!names->empty()) {
      json["split_points"] = *names;
      return json;
    }
  }
  auto names = divided_by_titan(settings, schedule, mesh.pipeline, decoder_layers(model).size());
  for (int layer = decoder_layers(model).end; layer < transformer_layers(model).end; ++layer)
    names.back().push_back(model.layers[static_cast<std::size_t>(layer)].name);
  json["stages"] = names;
  return json;
}

nlohmann::ordered_json all_in_one_stage(const Model& model) {
  std::vector<std::string> names;
  for (const Layer& layer : model.layers) names.push_back(layer.name);
  return {{"stages", {names}}};
}

std::string schedule_of(const TitanSettings& settings) {
  const TomlSetting* csv = settings.parallelism("pipeline_parallel_schedule_csv");
  if (!settings.word(csv, "").empty()) {
    throw Error(ErrorKind::input,
                "the order of a schedule's CSV file is not read here: without this key, "
                "the class's own order is",
                csv->place,
                {"import torch takes the file's text as \"schedule_csv\" beside \"order\""});
  }
  return settings.word(settings.parallelism("pipeline_parallel_schedule"), "1F1B");
}

/// Block by block; results of chosen operations are not among what plans keep.
void set_checkpoints(const TitanSettings& settings, nlohmann::ordered_json& json,
                     ImportedPlan& imported) {
  const TomlSetting* setting = settings.find("activation_checkpoint.mode");
  const std::string mode = settings.word(setting, "selective");
  const TomlSetting* option = settings.find("activation_checkpoint.selective_ac_option");
  if (mode == "memory_budget") {
    imported.notes.emplace_back(
        "what torch.compile recomputes within a memory budget is not modelled: the plan recomputes "
        "nothing");
    return;
  }
  if (mode != "none" && mode != "full" && mode != "selective")
    settings.fail_at(*setting, "expected none, full, selective or memory_budget");
  json["activation_checkpoint"] = mode;
  if (mode != "selective") return;
  const std::string every = option != nullptr && std::holds_alternative<std::int64_t>(option->value)
                                ? option->text
                                : settings.word(option, "2");
  const bool by_operation = every == "op";
  const bool is_number = !every.empty() && every.size() < 6 && every != "0" &&
                         every.find_first_not_of("0123456789") == std::string::npos;
  if (!by_operation && !is_number)
    settings.fail_at(*option, "expected \"op\" or every how many blocks, for example \"2\"");
  json["selective_ac_option"] = by_operation ? "2" : every;
  if (by_operation) {
    imported.notes.emplace_back(
        "selective checkpoints by operation keep the attention and every second product of a "
        "block, for which plans have no word: this one recomputes every second block whole");
  }
}

bool is_off(const TitanSettings& settings, const TomlSetting& setting) {
  if (const auto* value = std::get_if<bool>(&setting.value); value != nullptr && !*value)
    return true;
  if (const auto* value = std::get_if<std::string>(&setting.value); value != nullptr)
    if (value->empty()) return true;
  const std::string table = setting.path.substr(0, setting.path.rfind('.'));
  const TomlSetting* enabled = settings.find(table + ".enable");
  if (enabled != nullptr && !settings.is_on(table + ".enable")) return true;
  const bool is_of_8_bits = setting.path.starts_with("float8.") ||
                            setting.path.starts_with("mx.") ||
                            setting.path.starts_with("quantize.");
  return is_of_8_bits && !multiplies_in_8_bits(settings);
}

void list_settings(const TitanSettings& settings, ImportedPlan& imported) {
  for (const TomlSetting& setting : settings.all()) {
    constexpr std::size_t longest = 60;
    const KeyMeaning* row = meaning_of(titan_keys, setting.path);
    const auto* word = std::get_if<std::string>(&setting.value);
    const std::string_view value = word == nullptr ? std::string_view(setting.text) : *word;
    const bool as_modelled =
        is_off(settings, setting) || (row != nullptr && value == row->as_modelled);
    list_text(imported, row, as_modelled,
              {concat(setting.path, " = ", setting.text.size() > longest ? "…" : setting.text),
               setting.place});
  }
}

/// Our name of what the file trains; empty if there is none.
std::string_view titan_model(const TitanSettings& settings) {
  const std::string name = settings.word(settings.find("model.name"), "llama3");
  const std::string flavor = settings.word(settings.find("model.flavor"), "debugmodel");
  for (const TitanFlavor& row : titan_flavors) {
    if (row.name == name && row.flavor == flavor) return row.model;
  }
  return "";
}

void note_what_else(const TitanSettings& settings, const TitanMesh& mesh, const TitanBatch& batch,
                    const std::string& model_name, ImportedPlan& imported) {
  const TomlSetting* optimizer = settings.find("optimizer.name");
  const std::string name = settings.word(optimizer, "AdamW");
  if (name != "AdamW" && name != "Adam") {
    imported.notes.push_back(
        concat("the optimizer is planned as AdamW: plans have no words for ", name));
  }
  if (mesh.replicate > 1 && mesh.shard > 1) {
    imported.notes.push_back(
        concat("states are sharded over ", mesh.shard, " of the ", mesh.replicas(), " replicas, ",
               mesh.replicate, " times over; the plan shards them over all, in less ", "memory"));
  }
  if (mesh.pipeline > 1 && batch.steps > 1) {
    imported.notes.push_back(
        concat("torchtitan fills and drains the pipeline ", batch.steps,
               " times in a step, once for each local batch; the plan does so once"));
  }
  if (titan_model(settings) != model_name) {
    imported.notes.push_back(concat("the file trains ",
                                    settings.word(settings.find("model.name"), "llama3"), " ",
                                    settings.word(settings.find("model.flavor"), "debugmodel"),
                                    "; the plan is for ", model_name));
  }
}

// --- The plan ---

/// What the file says, else the option, else what torchtitan has.
template <class Value>
Value settled(const TomlSetting* setting, const Value& of_titan, const std::optional<Value>& option,
              std::string_view flag) {
  const std::optional<Value> in_file = setting == nullptr ? std::nullopt : std::optional(of_titan);
  const std::string path = setting == nullptr ? "" : setting->path;
  return said_once(in_file, path, option, flag).value_or(of_titan);
}

/// The options of the plan that torch's stages make.
PlanOptions titan_options(const TitanSettings& settings, const TitanMesh& mesh,
                          const TitanBatch& batch, const PlanOptions& said,
                          ImportedPlan& imported) {
  if (said.sharding)
    fail_usage("sharding follows from data_parallel_shard_degree; leave --sharding away");
  if (said.microbatch)
    fail_usage("microbatches follow from local_batch_size; leave --microbatch away");
  PlanOptions options = said;
  const Precision plain =
      settled(settings.find("training.mixed_precision_param"),
              precision_of(settings, mesh, imported), said.precision, "--precision");
  options.precision = multiplies_in_8_bits(settings) ? Precision::float8 : plain;
  options.sharding = sharding_of(settings, mesh, batch.steps > 1, imported);
  options.optimizer =
      settled(settings.find("optimizer.name"), OptimizerKind::adamw, said.optimizer, "--optimizer");
  const TomlSetting* tokens = settings.find("training.seq_len");
  options.sequence =
      settled(tokens, settings.number(tokens, 2048, 1, most_samples), said.sequence, "--sequence");
  // torchtitan's DDP: replicate(model, bucket_cap_mb=100).
  constexpr Bytes bucket_of_ddp = Bytes{100} << 20;
  if (!mesh.has_fsdp() && mesh.replicate > 1)
    options.gradient_bucket = said.gradient_bucket.value_or(bucket_of_ddp);
  options.batch.reset();
  return options;
}

/// What the importer of torch's stages reads.
nlohmann::ordered_json as_torch_stages(const TitanSettings& settings, const TitanMesh& mesh,
                                       const TitanBatch& batch, const PlanQuestion& question,
                                       ImportedPlan& imported) {
  const Model& model = question.profile.model;
  nlohmann::ordered_json json = all_in_one_stage(model);
  std::string_view schedule = "1f1b";
  if (mesh.pipeline > 1) {
    const TomlSetting* setting = settings.parallelism("pipeline_parallel_schedule");
    const std::optional<std::string> option =
        question.options.schedule.empty() ? std::nullopt : std::optional(question.options.schedule);
    const std::string word = settled(setting, schedule_of(settings), option, "--schedule");
    try {
      schedule = find_torch_schedule(word);
    } catch (const Error& error) {
      if (setting == nullptr) throw;
      throw Error(ErrorKind::input, error.message(), setting->place, error.help());
    }
    json = stages_of(settings, find_schedule(schedule), mesh, model);
  }
  json["schedule"] = schedule;
  json["pipeline_parallel_degree"] = mesh.pipeline;
  json["tensor_parallel_degree"] = mesh.tensor;
  json["context_parallel_degree"] = mesh.context;
  json["data_parallel_degree"] = mesh.replicas();
  json["sequence_parallel"] = mesh.tensor > 1;
  json["expert_parallel_degree"] = mesh.expert;
  // Experts on their own are whole unless they are cut as all else; else they are cut.
  const int expert_tensor = settings.degree("expert_tensor_parallel_degree");
  if (mesh.expert > 1 && mesh.tensor > 1 && expert_tensor != mesh.tensor)
    json["expert_tensor_parallel_degree"] = expert_tensor;
  set_checkpoints(settings, json, imported);
  json["microbatches"] = batch.global / (batch.microbatch * mesh.replicas());
  json["global_batch_size"] = batch.global;
  return json;
}

/// Complaints about stages are about the key that lists them, or about the file.
SourcePlace place_of_stages(const TitanSettings& settings, const std::string& file) {
  for (const char* key : {"module_fqns_per_model_part", "pipeline_parallel_split_points"}) {
    if (const TomlSetting* setting = settings.parallelism(key)) return setting->place;
  }
  return {file, 0, 0};
}

}  // namespace

bool looks_like_torchtitan(std::string_view content) {
  const auto has_line = [&](std::string_view line) {
    return content.starts_with(line) || content.find(concat("\n", line)) != std::string_view::npos;
  };
  const bool has_table = has_line("[training]") || has_line("[parallelism]");
  return has_table && (content.find("seq_len") != std::string_view::npos ||
                       content.find("batch_size") != std::string_view::npos ||
                       content.find("_parallel_degree") != std::string_view::npos);
}

std::string torchtitan_model(std::string_view content, const std::string& file) {
  return std::string(titan_model(TitanSettings(content, file)));
}

ImportedPlan import_torchtitan(std::string_view content, const std::string& file,
                               const PlanQuestion& question) {
  const TitanSettings settings(content, file);
  ImportedPlan imported;
  list_settings(settings, imported);
  require_mostly_known(imported, "torchtitan");
  const TitanMesh mesh = read_titan_mesh(settings, device_count(question.cluster));
  TitanBatch batch = read_titan_batch(settings, mesh);
  const std::int64_t steps_at_once = batch.global / batch.steps;
  batch.global = settled(settings.find("training.global_batch_size"), batch.global,
                         question.options.batch, "--batch");
  if (batch.global % steps_at_once != 0) {
    fail_usage("--batch ", batch.global, " is no multiple of the ", steps_at_once,
               " samples that the file's replicas take at once");
  }
  batch.steps = batch.global / steps_at_once;
  note_what_else(settings, mesh, batch, question.model_name, imported);
  PlanQuestion stages = question;
  stages.options = titan_options(settings, mesh, batch, question.options, imported);
  const std::string json = as_torch_stages(settings, mesh, batch, question, imported).dump();
  stages.options.schedule.clear();
  try {
    imported.plan = import_torch(json, file, stages).plan;
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(), place_of_stages(settings, file), error.help());
  }
  return imported;
}

}  // namespace stagecraft
