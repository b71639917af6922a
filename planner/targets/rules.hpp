// Rules that several frameworks share.

#pragma once

#include <array>

#include "planner/targets/targets.hpp"

namespace stagecraft {

inline constexpr std::array any_sharding{Sharding::none, Sharding::zero1, Sharding::zero2,
                                         Sharding::zero3};
inline constexpr std::array sharded_states{Sharding::none, Sharding::zero1};
inline constexpr std::array whole_states{Sharding::none};

inline constexpr std::array usual_precisions{Precision::bfloat16, Precision::float16,
                                             Precision::float32};
inline constexpr std::array precisions_with_fp8{Precision::bfloat16, Precision::float16,
                                                Precision::float32, Precision::float8};

/// Megatron Core's schedules (megatron/core/pipeline_parallel/schedules.py).
inline constexpr std::array<std::string_view, 2> megatron_schedules{"1f1b", "interleaved"};
/// Recomputation in all stages that `--recompute-granularity` allows.
inline constexpr std::array megatron_recompute{
    RecomputeEverywhere::none, RecomputeEverywhere::selective, RecomputeEverywhere::blocks,
    RecomputeEverywhere::stages};
std::string megatron_refuses(const TargetPipeline& pipeline);
/// Properties of the model that neither Megatron-LM's arguments nor systems on Megatron Core can
/// express.
std::vector<std::string> against_model_of_megatron(const Model& model);
/// As `against_model_of_megatron`, with properties that only a recipe can express: Megatron-LM's
/// own program takes the model from arguments.
std::vector<std::string> against_arguments_of_megatron(const Model& model);
/// The row of a system built on Megatron Core, with the rules that all of these share.
inline Target over_megatron_core(std::string_view name, std::string_view version,
                                 std::string_view system, FusedLoss fused_loss) {
  return {.name = name,
          .version = version,
          .system = system,
          .format = "megatron",
          .schedules = megatron_schedules,
          .recompute = megatron_recompute,
          .keeps_ends = true,
          .only_transformers = true,
          .experts_want_sequence_parallel = true,
          .gradient_buckets = true,
          .sharding = any_sharding,
          .precision = precisions_with_fp8,
          .dispatchers = true,
          .cuda_graphs = true,
          .fused_loss = fused_loss,
          .router_fusion = true,
          .overlaps = true,
          .recompute_modules = true,
          .against_model = against_model_of_megatron,
          .refuses = megatron_refuses};
}

/// The classes of torch.distributed.pipelining that are searched by the fast clock or simulated.
inline constexpr std::array<std::string_view, 7> torch_schedules{
    "gpipe", "1f1b", "interleaved", "looped-bfs", "interleaved-zb", "zb-v", "dualpipev"};
std::string torch_refuses(const TargetPipeline& pipeline);

}  // namespace stagecraft
