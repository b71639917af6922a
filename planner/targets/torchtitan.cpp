// torchtitan: transformers over torch.distributed.pipelining, with activation checkpoints around
// each block or none (torchtitan/distributed/activation_checkpoint.py).

#include "planner/targets/rules.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::array recompute_in_torchtitan{RecomputeEverywhere::none,
                                             RecomputeEverywhere::blocks};

std::string torchtitan_refuses(const TargetPipeline& pipeline) {
  std::string why = torch_refuses(pipeline);
  return why.empty() ? torchtitan_shards_otherwise(pipeline) : why;
}

}  // namespace

std::string torchtitan_shards_otherwise(const TargetPipeline& pipeline) {
  const Sharding sharding = pipeline.sharding;
  if (pipeline.devices > 1 && shards_gradients(sharding)) {
    return concat("torchtitan sums gradients of a pipeline once, behind the last backward, as ",
                  "zero1 does; the plan has ", to_string(sharding));
  }
  if (pipeline.devices == 1 && pipeline.microbatches > 1 && sharding == Sharding::zero1) {
    return concat("torchtitan scatters gradients in each microbatch where there is no pipeline, ",
                  "as zero2 does; the plan has zero1");
  }
  return {};
}

const Target torchtitan_target{.name = "torchtitan",
                               .version = "0.3.0",
                               .system = "torchtitan",
                               .format = "torch",
                               .schedules = torch_schedules,
                               .recompute = recompute_in_torchtitan,
                               .only_transformers = true,
                               .sharding = any_sharding,
                               .precision = usual_precisions,
                               .kernels = Framework::torch,
                               .refuses = torchtitan_refuses};

}  // namespace stagecraft
