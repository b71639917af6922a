// Plans of others. To add a format: write importers/NAME.cpp, declare its two functions here, add a
// row.
//
// Such a file says which layers form each stage, and some of the rest: devices per stage, batch,
// schedule. What the format leaves open comes with the question, from the command line; what both
// say must not be said twice. The result is a plan like any other, for the one evaluator.

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

/// What the command line says in place of a file that does not.
struct PlanOptions {
  std::optional<std::int64_t> batch;       ///< samples per step
  std::optional<std::int64_t> microbatch;  ///< samples per microbatch, over all replicas
  std::optional<std::int64_t> sequence;    ///< tokens per sample
  std::optional<Precision> precision;
  std::optional<Framework> kernels;  ///< of layers whose costs are estimated
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
  std::string schedule;       ///< a name of `schedule list`; empty: not said
  std::vector<int> replicas;  ///< per stage; empty: not said
};

/// What the command line says of a launch script's variables, by name.
using ScriptVariables = std::map<std::string, std::string>;

/// What a file with stages is about.
struct PlanQuestion {
  std::string model_name;  ///< MODEL and CLUSTER as given; they go into the plan
  std::string cluster_name;
  std::string profile_hash;
  Profile profile;
  std::string model_content;  ///< of MODEL's file; empty for built-in models
  Cluster cluster;
  PlanOptions options;
  ScriptVariables variables = {};  ///< only launch scripts have them
};

/// A piece of a file, as it is written, and where.
struct ReadText {
  std::string text;
  SourcePlace place;
};

/// A file that was read beside the one that was asked for.
struct OtherFile {
  std::string path;
  std::string content;
};

struct ImportedPlan {
  Plan plan;
  std::vector<std::string> notes = {};      ///< what the plan cannot say as the file does
  std::vector<ReadText> understood = {};    ///< taken over, or without bearing on how a step runs
  std::vector<ReadText> not_modelled = {};  ///< changes how a step runs, but plans do not have it
  std::vector<ReadText> unknown = {};
  std::vector<OtherFile> others = {};
};

/// Does this content look like the format? Cheap, and never throws.
using RecognisePlan = bool (*)(std::string_view content);
/// Reads the content of `file` (its name serves errors). Throws Error: of kind input with the place
/// for what the file has wrong, or what its own system would refuse, with that reason; of kind
/// usage for options that are missing or that the file has said already.
using ImportPlan = ImportedPlan (*)(std::string_view content, const std::string& file,
                                    const PlanQuestion& question);

struct PlanImporter {
  std::string_view name;  ///< as in `stagecraft import NAME FILE`
  RecognisePlan recognise;
  ImportPlan import;
  std::string_view summary;
  bool has_variables = false;  ///< its files may be scripts, whose variables --set gives
  /// The built-in model that the file names; empty if it names another. Null: files name none.
  std::string (*model_of)(std::string_view content, const std::string& file,
                          const ScriptVariables& variables) = nullptr;
  /// The flag, beside those of model and cluster, without which the file is no plan; empty if there
  /// is none. Null: files say all else.
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
/// does, of kind input if the plan is not valid, and of kind usage for variables of what has none.
ImportedPlan import_plan(const PlanImporter& importer, std::string_view content,
                         const std::string& file, const PlanQuestion& question);

}  // namespace stagecraft
