// Importers of plans from other systems' formats. To add a format: write importers/NAME.cpp,
// declare its two functions here, add a row.
//
// Such a file gives the layers of each stage and some other properties: devices per stage, batch,
// schedule. Properties that the format leaves open come from the command line; giving a property in
// both is an error. The result is an ordinary plan, for the same evaluator.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

/// Properties from the command line that the file does not give.
struct PlanOptions {
  std::optional<std::int64_t> batch;       ///< samples per step
  std::optional<std::int64_t> microbatch;  ///< samples per microbatch, over all replicas
  std::optional<std::int64_t> sequence;    ///< tokens per sample
  std::optional<Precision> precision;
  std::optional<Framework> kernels;  ///< kernels that estimated costs assume
  std::optional<Dispatcher> dispatcher;
  std::optional<CudaGraphs> graphs;
  std::optional<Float8Recipe> float8_recipe;
  std::optional<FusedLoss> fused_loss;
  std::optional<RouterFusion> router_fusion;
  std::optional<LayerModules> recompute_modules;
  std::optional<MessageOverlap> overlap;
  std::optional<OptimizerKind> optimizer;
  std::optional<Sharding> sharding;
  std::optional<Bytes> gradient_bucket;
  std::string schedule;       ///< a name of `schedule list`; empty: not given
  std::vector<int> replicas;  ///< replicas per stage; empty: not given
};

/// Values of a launch script's variables from the command line, by name.
using ScriptVariables = std::map<std::string, std::string>;

/// The model and cluster that a file with stages belongs to, and the options.
struct PlanQuestion {
  std::string model_name;  ///< MODEL and CLUSTER as given; recorded in the plan
  std::string cluster_name;
  std::string profile_hash;
  Profile profile;
  std::string model_content;  ///< content of MODEL's file; empty for built-in models
  Cluster cluster;
  PlanOptions options;
  ScriptVariables variables = {};  ///< for launch scripts only
};

/// A literal piece of a file, with its place.
struct ReadText {
  std::string text;
  SourcePlace place;
};

/// Another file that the importer read.
struct OtherFile {
  std::string path;
  std::string content;
};

struct ImportedPlan {
  Plan plan;
  std::vector<std::string> notes = {};      ///< properties of the file that the plan cannot express
  std::vector<ReadText> understood = {};    ///< taken over, or without effect on a step
  std::vector<ReadText> not_modelled = {};  ///< affects a step, but plans cannot express it
  std::vector<ReadText> unknown = {};
  std::vector<OtherFile> others = {};
};

/// Whether this content looks like the format. Cheap; never throws.
using RecognisePlan = bool (*)(std::string_view content);
/// Reads the content of `file`, whose name is used in errors. Throws Error (input), with the place,
/// for mistakes in the file and for plans that its own system would refuse; Error (usage) for
/// options that are missing or that the file gives already.
using ImportPlan = ImportedPlan (*)(std::string_view content, const std::string& file,
                                    const PlanQuestion& question);

struct PlanImporter {
  std::string_view name;  ///< as in `stagecraft import NAME FILE`
  RecognisePlan recognise;
  ImportPlan import;
  std::string_view summary;
  bool has_variables = false;  ///< its files may be scripts, whose variables --set assigns
  /// The built-in model that the file names; empty if it names no built-in model. Null: files of
  /// the format name no model.
  std::string (*model_of)(std::string_view content, const std::string& file,
                          const ScriptVariables& variables) = nullptr;
  /// The flag, beside those of model and cluster, that the file needs in order to be a complete
  /// plan; empty if there is none. Null: files of the format are complete.
  std::string (*open_flag)(std::string_view content, const std::string& file) = nullptr;
};

bool looks_like_megatron(std::string_view content);
ImportedPlan import_megatron(std::string_view content, const std::string& file,
                             const PlanQuestion& question);
bool looks_like_deepspeed(std::string_view content);
ImportedPlan import_deepspeed(std::string_view content, const std::string& file,
                              const PlanQuestion& question);
std::string open_in_deepspeed(std::string_view content, const std::string& file);
bool looks_like_torch(std::string_view content);
ImportedPlan import_torch(std::string_view content, const std::string& file,
                          const PlanQuestion& question);
bool looks_like_torchtitan(std::string_view content);
ImportedPlan import_torchtitan(std::string_view content, const std::string& file,
                               const PlanQuestion& question);
std::string torchtitan_model(std::string_view content, const std::string& file,
                             const ScriptVariables& variables);
bool looks_like_vllm(std::string_view content);
ImportedPlan import_vllm(std::string_view content, const std::string& file,
                         const PlanQuestion& question);
std::string open_in_vllm(std::string_view content, const std::string& file);
bool looks_like_pipedream_plan(std::string_view content);
ImportedPlan import_pipedream_plan(std::string_view content, const std::string& file,
                                   const PlanQuestion& question);
bool looks_like_piper_plan(std::string_view content);
ImportedPlan import_piper_plan(std::string_view content, const std::string& file,
                               const PlanQuestion& question);
bool looks_like_aceso_plan(std::string_view content);
ImportedPlan import_aceso_plan(std::string_view content, const std::string& file,
                               const PlanQuestion& question);

inline constexpr std::array plan_importers{
    PlanImporter{
        "megatron", looks_like_megatron, import_megatron,
        "a plan: Megatron-LM's flags, out of a launch script (read, never run), YAML, JSON, or the "
        "arguments in a log; also those of NeMo and NeMo RL, Megatron-Bridge, ms-swift, slime, "
        "verl, "
        "ROLL, LLaMA-Factory, Primus, zero-bubble and GPT-NeoX",
        true},
    PlanImporter{
        "deepspeed", looks_like_deepspeed, import_deepspeed,
        "a plan: a ds_config, with the parts of its PipelineModule if it has one, or these alone",
        false, nullptr, open_in_deepspeed},
    PlanImporter{"torch", looks_like_torch, import_torch,
                 "a plan: stages or split points of torch.distributed.pipelining, with its "
                 "schedule's name"},
    PlanImporter{"torchtitan", looks_like_torchtitan, import_torchtitan,
                 "a plan: torchtitan's configuration in TOML, or in Python since 0.3, or a launch "
                 "that starts with one",
                 true, torchtitan_model},
    PlanImporter{"vllm", looks_like_vllm, import_vllm,
                 "a plan: vLLM's launch lines, with the layers of each rank where they say them",
                 true, nullptr, open_in_vllm},
    PlanImporter{"pipedream", looks_like_pipedream_plan, import_pipedream_plan,
                 "a plan: conf.json of PipeDream's runtime, or the graph its optimizer wrote"},
    PlanImporter{"piper", looks_like_piper_plan, import_piper_plan,
                 "a plan: Piper's stages for one of its own inputs"},
    PlanImporter{"aceso", looks_like_aceso_plan, import_aceso_plan,
                 "a plan: Aceso's stages, operator by operator, for a table of its database"},
};

/// The imported plan, valid for the question's model and cluster. Throws Error as the importer
/// does; Error (input) if the plan is not valid; Error (usage) for variables of a file that has
/// none.
ImportedPlan import_plan(const PlanImporter& importer, std::string_view content,
                         const std::string& file, const PlanQuestion& question);

}  // namespace stagecraft
