// torchtitan's job configuration: TOML, as its releases before 0.3 read it, or a function in Python
// since; or the line that starts one. Keys that are left out have torchtitan's defaults
// (torchtitan/config/job_config.py of 0.2, config/configs.py of 0.3).
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
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "planner/interop/exporters/torch_order.hpp"
#include "planner/interop/importers.hpp"
#include "planner/interop/importers/common.hpp"
#include "planner/interop/importers/script_folder.hpp"
#include "planner/interop/importers/torchtitan/launch.hpp"
#include "planner/interop/importers/torchtitan/mesh.hpp"
#include "planner/interop/importers/torchtitan/python_settings.hpp"
#include "planner/interop/importers/torchtitan/settings.hpp"
#include "planner/interop/importers/torchtitan/stages.hpp"
#include "planner/interop/torch_names.hpp"
#include "planner/targets/torchtitan_models.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// What the plan shards, or the flag --sharding in its place.
Sharding sharding_of(const TitanSettings& settings, const TitanMesh& mesh, bool accumulates,
                     ImportedPlan& imported) {
  const TomlSetting* policy = settings.parallelism("fsdp_reshard_after_forward");
  const std::string word = settings.word(policy, "default");
  // A policy that is said of one shard is what the plan has.
  const bool is_alone = settings.since_0_3() && mesh.replicas() == 1 && word != "default";
  if (!mesh.has_fsdp() && !is_alone) return Sharding::none;
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
  const bool is_mixed = word == "bfloat16" && (settings.since_0_3() || mesh.has_fsdp() ||
                                               (mesh.tensor == 1 && mesh.pipeline == 1));
  if (word == "bfloat16" && !is_mixed) {
    imported.notes.emplace_back(
        "torchtitan computes in mixed precision with FSDP, or without tensor and pipeline "
        "parallelism: this run is in fp32");
  }
  return is_mixed ? Precision::bfloat16 : Precision::float32;
}

nlohmann::ordered_json all_in_one_stage(const Model& model) {
  std::vector<std::string> names;
  for (const Layer& layer : model.layers) names.push_back(layer.name);
  return {{"stages", {names}}};
}

/// Which order a schedule's file has, as our exporter says it beside the file's name.
const TomlSetting* order_of(const TitanSettings& settings) {
  const TomlSetting* csv = settings.parallelism("pipeline_parallel_schedule_csv");
  return csv == nullptr || csv->text == "\"\"" ? nullptr : settings.find("order");
}

std::string schedule_of(const TitanSettings& settings) {
  const TomlSetting* csv = settings.parallelism("pipeline_parallel_schedule_csv");
  const bool is_computed = csv != nullptr && std::holds_alternative<std::monostate>(csv->value);
  if (is_computed || !settings.word(csv, "").empty()) {
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
                                : settings.word(option, settings.since_0_3() ? "op" : "2");
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

/// Our name of what the file trains; empty if there is none.
std::string_view titan_model(const TitanSettings& settings) {
  const std::string name = settings.word(settings.find("model.name"), "llama3");
  const std::string flavor = settings.word(settings.find("model.flavor"), "debugmodel");
  return builtin_of_titan(name, flavor);
}

/// By its name here, or by its numbers; a configuration may leave it open.
bool is_model_of(const TitanSettings& settings, const std::string& name, const Model& model) {
  const TomlSetting* module = settings.find("model.name");
  const TomlSetting* flavor = settings.find("model.flavor");
  if (titan_model(settings) == name) return true;
  const TitanModel* known = find_titan_model(model);
  return known != nullptr && module != nullptr && flavor != nullptr &&
         settings.word(module, "") == known->module && settings.word(flavor, "") == known->flavor;
}

void note_what_else(const TitanSettings& settings, const TitanMesh& mesh, const TitanBatch& batch,
                    const std::string& model_name, const Model& model, ImportedPlan& imported) {
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
  if (!is_model_of(settings, model_name, model)) {
    imported.notes.push_back(concat("the file trains ",
                                    settings.word(settings.find("model.name"), "llama3"), " ",
                                    settings.word(settings.find("model.flavor"), "debugmodel"),
                                    "; the plan is for ", model_name));
  }
}

// --- The plan ---

/// Complaints are about the setting.
auto at_place_of(const TomlSetting& setting, const auto& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error.kind(), concat(setting.path, ": ", error.message()), setting.place,
                error.help());
  }
}

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
  if (!mesh.has_fsdp() && mesh.replicate > 1 && !settings.since_0_3())
    options.gradient_bucket = said.gradient_bucket.value_or(bucket_of_ddp);
  options.batch.reset();
  return options;
}

/// {"name": "zb-h1", "group": 4}
Json read_order(const TomlSetting& order) {
  return at_place_of(order, [&] { return Json::parse(order.text, order.place.file); });
}

/// What the importer of torch's stages reads.
nlohmann::ordered_json as_torch_stages(const TitanSettings& settings, const TitanMesh& mesh,
                                       const TitanBatch& batch, const PlanQuestion& question,
                                       ImportedPlan& imported) {
  const Model& model = question.profile.model;
  nlohmann::ordered_json json = all_in_one_stage(model);
  std::string_view schedule = "1f1b";
  const TomlSetting* order = order_of(settings);
  if (mesh.pipeline > 1 && order != nullptr) {
    const Json said = read_order(*order);
    json = titan_stages(settings, find_schedule(said["name"].string()), mesh, model);
    json["order"] = said.raw();
    schedule = torch_runtime;
  } else if (mesh.pipeline > 1) {
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
    json = titan_stages(settings, find_schedule(schedule), mesh, model);
  }
  json["schedule"] = schedule;
  json["pipeline_parallel_degree"] = mesh.pipeline;
  json["tensor_parallel_degree"] = mesh.tensor;
  json["context_parallel_degree"] = mesh.context;
  json["data_parallel_degree"] = mesh.replicas();
  const TomlSetting* sequence = settings.parallelism("enable_sequence_parallel");
  const bool is_whole = sequence != nullptr && !settings.is_on(sequence->path);
  json["sequence_parallel"] = mesh.tensor > 1 && !is_whole;
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

/// The order that the file beside the configuration has is the plan's.
void require_order(const TitanSettings& settings, const std::string& file, ImportedPlan& imported) {
  const TomlSetting* order = order_of(settings);
  if (order == nullptr || pipeline_devices(imported.plan) == 1) return;
  std::filesystem::path path(order->place.file.empty() ? file : order->place.file);
  path.replace_extension(".csv");
  const std::optional<OtherFile> csv = read_other_file(path);
  if (!csv) {
    throw Error(ErrorKind::input,
                concat("the order of the schedule is in ", path.string(), ", which is not there"),
                order->place);
  }
  Reasons reasons("torch");
  if (csv->content != torch_order_csv(reasons, imported.plan)) {
    throw Error(
        ErrorKind::input,
        concat("the order in ", path.string(), " is not that of ", imported.plan.schedule.name),
        order->place);
  }
  imported.others.push_back(*csv);
}

/// Complaints about stages are about the key that lists them, or about the file.
SourcePlace place_of_stages(const TitanSettings& settings, const std::string& file) {
  for (const char* key : {"module_fqns_per_model_part", "pipeline_parallel_split_points"}) {
    if (const TomlSetting* setting = settings.parallelism(key)) return setting->place;
  }
  return {file, 0, 0};
}

/// As many as the launch starts.
int devices_of(const TitanJob& job, const Cluster& cluster) {
  const int devices = device_count(cluster);
  if (!job.ranks || *job.ranks <= devices) return job.ranks.value_or(devices);
  fail_with_help(
      ErrorKind::input,
      concat("the launch starts ", *job.ranks, " ranks, and the cluster has ", devices, " devices"),
      {"--cluster with as many devices"});
}

}  // namespace

bool looks_like_torchtitan(std::string_view content) {
  if (looks_like_titan_python(content) || looks_like_titan_launch(content)) return true;
  const auto has_line = [&](std::string_view line) {
    return content.starts_with(line) || content.find(concat("\n", line)) != std::string_view::npos;
  };
  const bool has_table = has_line("[training]") || has_line("[parallelism]");
  return has_table && (content.find("seq_len") != std::string_view::npos ||
                       content.find("batch_size") != std::string_view::npos ||
                       content.find("_parallel_degree") != std::string_view::npos);
}

std::string torchtitan_model(std::string_view content, const std::string& file,
                             const ScriptVariables& variables) {
  return std::string(
      titan_model(TitanSettings(read_titan_job(content, file, variables).settings, file, false)));
}

ImportedPlan import_torchtitan(std::string_view content, const std::string& file,
                               const PlanQuestion& question) {
  TitanJob job = read_titan_job(content, file, question.variables);
  // Moved: where memory ends while a variant is copied, GCC 12's copies end the process.
  const TitanSettings settings(std::move(job.settings), file, job.since_0_3);
  ImportedPlan imported{.plan = {},
                        .notes = std::move(job.notes),
                        .unknown = std::move(job.unknown),
                        .others = std::move(job.others)};
  list_settings(settings, imported);
  require_mostly_known(imported, "torchtitan");
  const int devices = devices_of(job, question.cluster);
  const TitanMesh mesh = read_titan_mesh(settings, devices);
  TitanBatch batch = read_titan_batch(settings, mesh);
  const std::int64_t steps_at_once = batch.global / batch.steps;
  batch.global = settled(settings.find("training.global_batch_size"), batch.global,
                         question.options.batch, "--batch");
  if (batch.global % steps_at_once != 0) {
    fail_usage("--batch ", batch.global, " is no multiple of the ", steps_at_once,
               " samples that the file's replicas take at once");
  }
  batch.steps = batch.global / steps_at_once;
  note_what_else(settings, mesh, batch, question.model_name, question.profile.model, imported);
  PlanQuestion stages = question;
  stages.options = titan_options(settings, mesh, batch, question.options, imported);
  const std::string json = as_torch_stages(settings, mesh, batch, question, imported).dump();
  stages.options.schedule.clear();
  try {
    imported.plan = import_torch(json, file, stages).plan;
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(), place_of_stages(settings, file), error.help());
  }
  require_order(settings, file, imported);
  return imported;
}

}  // namespace stagecraft
