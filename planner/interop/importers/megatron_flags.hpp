// Megatron-LM's flags: a launch script or its last line, YAML as in its CI, JSON, or a log.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/baselines/launch_scripts/partition.hpp"
#include "planner/interop/importers/flag_words.hpp"

namespace stagecraft {

/// A flag about the model's shape; the model itself comes with the question.
struct ShapeFlag {
  std::string name;  ///< "hidden-size"
  std::int64_t value = 0;
  bool operator==(const ShapeFlag&) const = default;
};

/// The properties of the plan that the flags give.
struct MegatronFlags {
  std::optional<int> layers;   ///< transformer layers
  int prediction_modules = 0;  ///< multi-token prediction, beside them
  int pipeline = 1;
  int tensor = 1;
  int context = 1;
  int expert = 1;
  int expert_tensor = 0;  ///< 0: as `tensor`
  bool sequence_parallel = false;
  std::optional<int> layers_per_virtual_stage;
  std::optional<int> virtual_stages;  ///< per pipeline rank
  /// The same, which configuration classes and logs have beside a layout.
  std::optional<int> virtual_size;
  std::optional<int> group;  ///< microbatches in a row per virtual stage
  MegatronSplit split;
  std::string layout;  ///< empty: none
  std::optional<std::int64_t> microbatch, global_batch, sequence;
  /// Micro-batches per step on each replica, where early releases with DeepSpeed say so.
  std::optional<int> accumulation;
  std::optional<int> world;  ///< ranks; else torchrun's nodes and processes
  std::optional<int> nodes, processes;
  /// The recipe's key for nodes, where it says processes alone: as many as the cluster has.
  std::string open_nodes;
  std::string recompute;  ///< granularity: empty, "full", "selective"
  std::string recompute_method;
  std::optional<int> recompute_layers;
  bool overlaps_tensor = false;     ///< --tp-comm-overlap
  bool overlaps_experts = false;    ///< --overlap-moe-expert-parallel-comm
  bool recomputes_experts = false;  ///< --moe-layer-recompute
  LayerModules recompute_modules;   ///< --recompute-modules; empty: not said
  std::string strange_modules;      ///< the first of them that plans do not know
  bool shards_optimizer = false;
  bool fully_sharded = false;  ///< its own FSDP
  bool torch_shards = false;   ///< torch's FSDP
  int zero_stage = 0;          ///< DeepSpeed's, 1 being `shards_optimizer` as well
  bool no_pipeline = false;    ///< DeepSpeed trains without its pipelines
  bool overlaps_gradients = false;
  std::optional<std::int64_t> bucket_parameters;  ///< --ddp-bucket-size
  std::string shards;     ///< --data-parallel-sharding-strategy; empty: not said
  std::string optimizer;  ///< "adam", "sgd"; empty: not said
  bool bf16 = false;
  bool fp16 = false;
  std::string fp8;  ///< --fp8-format: "e4m3", "hybrid"; empty: none
  bool fp8_attention = false;
  bool fused_loss = false;    ///< --cross-entropy-loss-fusion
  std::string loss_fusion;    ///< --cross-entropy-fusion-impl: "native", "te"; empty: "native"
  bool fuses_router = false;  ///< --moe-router-fusion
  std::string fp8_recipe;     ///< --fp8-recipe; empty: not said, which is "delayed"
  std::string dispatcher;     ///< --moe-token-dispatcher-type: "alltoall", "flex"; empty: not said
  std::string flex;         ///< --moe-flex-dispatcher-backend: "deepep", "hybridep"; empty: deepep
  std::string graphs;       ///< --cuda-graph-impl; empty: not said
  std::string graph_scope;  ///< --cuda-graph-scope or -modules: the first of them
  std::string schedule;     ///< of zero-bubble's releases: "zb-v", …; empty: 1F1B or interleaved
  int sequence_chunks = 1;  ///< --num-seq-splits
  std::optional<int> in_flight;  ///< --zero-bubble-max-pending-backward
  int expert_groups = 1;         ///< of the router; it chooses `expert_group_choice` of them
  int expert_group_choice = 0;
  std::vector<ShapeFlag> shape;  ///< to compare with the model, where they are numbers
  bool operator==(const MegatronFlags&) const = default;
};

/// Whether there is any flag in it that the plan needs.
bool has_megatron_flags(std::string_view content);

enum class MegatronFlagKind {
  valued,     ///< the plan takes its value
  on_or_off,  ///< the plan takes it as a switch
  refused,    ///< where it is in use
  other,
};
MegatronFlagKind megatron_flag_kind(std::string_view name);

/// Whether plans have the flag, but not this value of it: another dispatcher than theirs.
bool is_other_value(const FlagWord& word);

/// Adds the word to the flags. Throws Error (input) as `read_megatron_launch`.
void take_megatron_flag(const FlagWord& word, MegatronFlags& flags);

/// Adds a flag about the model's shape only.
void keep_megatron_shape(const FlagWord& word, MegatronFlags& flags);

/// A launch of Megatron-LM, and what of it went into its flags.
struct MegatronLaunch {
  MegatronFlags flags;
  std::vector<ReadText> understood;    ///< taken over, or without bearing on how a step runs
  std::vector<ReadText> not_modelled;  ///< changes how a step runs, but plans do not have it
  std::vector<ReadText> unknown;
  std::vector<std::string> notes;
  std::vector<OtherFile> others;
};

/// The one launch of the file, in the words of Megatron-LM's releases, zero-bubble, NeMo,
/// Megatron-Bridge, ms-swift, slime, verl, and others of enum Dialect; what these set by themselves
/// is said in a note. Throws Error (input) with the place of a value that cannot be understood (a
/// word for a number), of a flag whose kind of parallelism plans do not have, of variables without
/// value that the plan needs (all of them), of several different launches, and of a file of which
/// half is not known; (usage) for variables that the script does not have.
MegatronLaunch read_megatron_launch(std::string_view content, const std::string& file,
                                    const ScriptVariables& variables);

/// Its flags alone.
MegatronFlags read_megatron_flags(std::string_view content, const std::string& file);

}  // namespace stagecraft
