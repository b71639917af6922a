// Megatron-LM's flags: a launch script or its last line, YAML as in its CI, JSON, or a log.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/baselines/launch_scripts/partition.hpp"

namespace stagecraft {

/// A flag about the model's shape; the model itself comes with the question.
struct ShapeFlag {
  std::string name;  ///< "hidden-size"
  std::int64_t value = 0;
  bool operator==(const ShapeFlag&) const = default;
};

/// What the flags say about the plan; the other some four hundred are not looked at.
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
  std::optional<int> group;           ///< microbatches in a row per virtual stage
  MegatronSplit split;
  std::string layout;  ///< empty: none
  std::optional<std::int64_t> microbatch, global_batch, sequence;
  std::optional<int> world;  ///< ranks; else torchrun's nodes and processes
  std::optional<int> nodes, processes;
  std::string recompute;  ///< granularity: empty, "full", "selective"
  std::string recompute_method;
  std::optional<int> recompute_layers;
  bool shards_optimizer = false;
  bool fully_sharded = false;  ///< its own FSDP
  bool torch_shards = false;   ///< torch's FSDP
  bool overlaps_gradients = false;
  std::optional<std::int64_t> bucket_parameters;  ///< --ddp-bucket-size
  std::string shards;     ///< --data-parallel-sharding-strategy; empty: not said
  std::string optimizer;  ///< "adam", "sgd"; empty: not said
  bool bf16 = false;
  bool fp16 = false;
  std::string fp8;        ///< --fp8-format: "e4m3", "hybrid"; empty: none
  int expert_groups = 1;  ///< of the router; it chooses `expert_group_choice` of them
  int expert_group_choice = 0;
  std::vector<ShapeFlag> shape;  ///< to compare with the model, where they are numbers
  bool operator==(const MegatronFlags&) const = default;
};

/// Whether there is any flag in it that the plan needs.
bool has_megatron_flags(std::string_view content);

/// Throws Error (input) with the place of a value that cannot be understood (a shell variable, a
/// word for a number), or of a flag whose kind of parallelism plans do not have.
MegatronFlags read_megatron_flags(std::string_view content, const std::string& file);

}  // namespace stagecraft
