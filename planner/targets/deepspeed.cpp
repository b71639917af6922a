// DeepSpeed's PipelineModule: 1F1B over any cut of its list of layers, with a checkpoint every so
// many layers, the same everywhere (deepspeed/runtime/pipe/module.py). ZeRO-2 and 3 it refuses
// (deepspeed/runtime/pipe/engine.py); without a pipeline DeepSpeed's own engine has them, which
// takes the model as it is.

#include "planner/targets/rules.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::array<std::string_view, 1> schedules_of_deepspeed{"1f1b"};
constexpr std::array recompute_in_deepspeed{RecomputeEverywhere::none, RecomputeEverywhere::layers,
                                            RecomputeEverywhere::stages};

std::string deepspeed_refuses(const TargetPipeline& pipeline) {
  if (pipeline.devices == 1 || !shards_gradients(pipeline.sharding)) return {};
  return concat("DeepSpeed refuses ZeRO-2 and 3 with pipelines; the plan has ",
                to_string(pipeline.sharding), ": --pp 1 has no pipeline");
}

}  // namespace

const Target deepspeed_target{.name = "deepspeed",
                              .version = "0.19.8",
                              .system = "DeepSpeed",
                              .format = "deepspeed",
                              .schedules = schedules_of_deepspeed,
                              .recompute = recompute_in_deepspeed,
                              .context_parallel = false,
                              .expert_parallel = false,
                              .sharding = any_sharding,
                              .precision = usual_precisions,
                              .kernels = Framework::torch,
                              .refuses = deepspeed_refuses};

}  // namespace stagecraft
