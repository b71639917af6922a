#include "tools/options/plan_options.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "planner/calibration/script_model.hpp"
#include "planner/plan/sharding_words.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "simulator/schedules/schedules.hpp"
#include "tools/console.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/device_options.hpp"

namespace stagecraft {

namespace {

template <class Value>
std::optional<Value> given(Value value) {
  if (value == Value{}) return {};
  return value;
}

/// The value of a flag that names something, by its reader.
template <class Value>
std::optional<Value> read_flag(std::string_view flag, const std::string& text,
                               Value (*read)(std::string_view)) {
  if (text.empty()) return {};
  return read_named(flag, text, read);
}

PlanOptions options_from(const PlanFlags& flags) {
  PlanOptions options{
      .batch = given(flags.batch),
      .microbatch = given(flags.microbatch),
      .sequence = given(flags.sequence),
      .precision = read_flag("--precision", flags.precision, read_precision),
      .kernels = read_flag("--kernels", flags.kernels, read_framework),
      .dispatcher = read_flag("--dispatcher", flags.dispatcher, read_dispatcher),
      .graphs = read_flag("--cuda-graphs", flags.cuda_graphs, read_cuda_graphs),
      .float8_recipe = read_flag("--fp8-recipe", flags.fp8_recipe, read_float8_recipe),
      .fused_loss = read_flag("--fused-loss", flags.fused_loss, read_fused_loss),
      .router_fusion = read_flag("--router-fusion", flags.router_fusion, read_router_fusion),
      .recompute_modules =
          read_flag("--recompute-modules", flags.recompute_modules, read_layer_modules),
      .overlap = read_flag("--overlap", flags.overlap, read_message_overlap),
      .optimizer = read_flag("--optimizer", flags.optimizer, read_optimizer_kind),
      .sharding = read_flag("--sharding", flags.sharding, sharding_of_word),
      .gradient_bucket = {},
      .schedule = flags.schedule.empty() ? "" : std::string(find_schedule(flags.schedule).name),
      .replicas = {}};
  if (!flags.gradient_bucket.empty()) {
    options.gradient_bucket = read_bytes("--gradient-bucket", flags.gradient_bucket);
  }
  if (!flags.replicas.empty())
    options.replicas = read_small_integers("--replicas", flags.replicas, 1, most_devices);
  return options;
}

}  // namespace

std::string model_in_file(const PlanImporter& importer, const std::string& content,
                          const std::string& path, const PlanFlags& flags) {
  const ScriptVariables variables = read_variables(flags.variables);
  if (importer.model_of != nullptr) return importer.model_of(content, path, variables);
  if (importer.import != import_megatron || path == "-") return "";
  const auto script = model_of_script(content, path, variables);
  if (!script || !script->builtin.empty()) return script ? script->builtin : "";
  const std::string file = std::filesystem::path(path).stem().string() + ".model.json";
  throw Error(
      ErrorKind::usage,
      concat(path, " trains a transformer of ", script->blocks,
             " blocks that is no built-in model"),
      {},
      {concat("stagecraft import megatron ", path, " -o ", file, " writes it; then --model ", file,
              flags.cluster.empty() ? " and --cluster CLUSTER" : "")});
}

ScriptVariables read_variables(const std::vector<std::string>& words) {
  ScriptVariables variables;
  for (const std::string& word : words) {
    // A command in front may have an equals sign of its own.
    const std::size_t name = word.starts_with("$(") ? word.rfind(")=") : std::string::npos;
    const std::size_t equals = name == std::string::npos ? word.find('=') : name + 1;
    if (equals == std::string::npos || equals == 0)
      fail_usage("--set: expected NAME=VALUE, such as NNODES=4, found \"", word, "\"");
    if (!variables.try_emplace(word.substr(0, equals), word.substr(equals + 1)).second)
      fail_usage("--set says twice what ", word.substr(0, equals), " is");
  }
  return variables;
}

bool PlanFlags::any() const {
  for (const std::string* text :
       {&model, &cluster, &precision, &kernels, &dispatcher, &cuda_graphs, &fp8_recipe, &fused_loss,
        &router_fusion, &recompute_modules, &overlap, &optimizer, &sharding, &gradient_bucket,
        &schedule, &replicas}) {
    if (!text->empty()) return true;
  }
  return batch != 0 || microbatch != 0 || sequence != 0 || !variables.empty();
}

void declare_plan_flags(CLI::App& app, PlanFlags& flags) {
  const CLI::Range samples(std::int64_t{1}, std::int64_t{1} << 40);
  app.add_option("--model", flags.model,
                 "With a plan: model of the plan; optional if FILE has it, too")
      ->type_name("MODEL");
  app.add_option("--cluster", flags.cluster,
                 "With a plan: cluster of the plan; optional if MODEL's file names devices")
      ->type_name("CLUSTER");
  const char* unless = "With a plan, if the file leaves it open: ";
  app.add_option("--batch,--gbs", flags.batch, concat(unless, "samples per step"))
      ->type_name("N")
      ->check(samples);
  app.add_option("--microbatch", flags.microbatch,
                 concat(unless, "samples per microbatch, over all replicas"))
      ->type_name("N")
      ->check(samples);
  in_thousands(app.add_option("--sequence", flags.sequence,
                              concat(unless, "tokens per sample, 32k for 32768")))
      ->type_name("N")
      ->check(CLI::Range(1, 100'000'000));
  app.add_option("--precision", flags.precision,
                 concat(unless, "precision fp32, bf16, fp16, fp8, fp8+attention or fp64"))
      ->type_name("P");
  app.add_option("--kernels", flags.kernels,
                 concat(unless, "kernels of layers whose costs are estimated, megatron or torch"))
      ->type_name("NAME");
  app.add_option("--dispatcher", flags.dispatcher,
                 concat(unless, "dispatcher of tokens to experts: alltoall, deepep or hybridep"))
      ->type_name("NAME");
  app.add_option("--cuda-graphs", flags.cuda_graphs,
                 concat(unless, "kernels that the host launches together: none, layers or step"))
      ->type_name("WHICH");
  app.add_option("--fp8-recipe", flags.fp8_recipe,
                 concat(unless, "scaling recipe of fp8: delayed, tensorwise, blockwise or mxfp8"))
      ->type_name("NAME");
  app.add_option("--fused-loss", flags.fused_loss,
                 concat(unless, "loss kernel of Megatron-LM: none, native or te"))
      ->type_name("NAME");
  app.add_option("--router-fusion", flags.router_fusion,
                 concat(unless, "Megatron-LM's choice of experts in three kernels: on or off"))
      ->type_name("SWITCH");
  app.add_option("--overlap", flags.overlap,
                 concat(unless,
                        "messages of peers that overlap with a layer's kernels: none, tensor, "
                        "experts or tensor+experts"))
      ->type_name("WHICH");
  app.add_option("--recompute-modules", flags.recompute_modules,
                 concat(unless,
                        "modules of Megatron-LM's layers that selective recomputation repeats, "
                        "such as layernorm+moe_act"))
      ->type_name("LIST");
  app.add_option("--optimizer", flags.optimizer, concat(unless, "optimizer adamw or sgd"))
      ->type_name("NAME");
  app.add_option("--sharding", flags.sharding,
                 concat(unless, "sharding none, zero1, zero2 or zero3"))
      ->type_name("NAME");
  app.add_option("--gradient-bucket", flags.gradient_bucket,
                 concat(unless, "bucket size of gradient sums that overlap the last backward"))
      ->type_name("SIZE");
  app.add_option("--schedule", flags.schedule,
                 concat(unless, "schedule, a name of `schedule list`"))
      ->type_name("NAME");
  app.add_option("--replicas", flags.replicas,
                 concat(unless, "replicas of each stage, such as 3,1"))
      ->type_name("LIST");
  app.add_option(
         "--set", flags.variables,
         "With a launch script, a value that only its cluster knows: of a variable, of an "
         "argument (1=…), or of what a command prints ('$(nproc)=8'); with a recipe in YAML, a "
         "setting (trainer.num_nodes=4); may be given again")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

PlanQuestion question_from(Console& console, const PlanFlags& flags) {
  PlanQuestion question{.model_name = flags.model,
                        .cluster_name = {},
                        .profile_hash = {},
                        .profile = {},
                        .model_content = {},
                        .cluster = {},
                        .options = options_from(flags),
                        .variables = read_variables(flags.variables)};
  LoadedProfile loaded = load_profile(flags.model);
  console.input(loaded.path, loaded.hash);
  for (const std::string& warning : loaded.profile.warnings) console.note(warning);
  if (flags.cluster.empty() && !loaded.profile.devices) {
    throw Error(ErrorKind::usage,
                "--cluster is missing, and MODEL's file names no devices of its own", {},
                {"name the devices that the plan is for, for example --cluster 8xh100"});
  }
  ChosenDevices devices = choose_devices({.cluster = flags.cluster}, loaded.profile);
  question.cluster_name = std::move(devices.name);
  question.cluster = std::move(devices.cluster);
  question.profile_hash = std::move(loaded.hash);
  question.profile = std::move(loaded.profile);
  question.model_content = std::move(loaded.content);
  return question;
}

}  // namespace stagecraft
