// DeepSpeed's PipelineModule: 1F1B over any cut of its list of layers, with a checkpoint every so
// many layers, the same everywhere (deepspeed/runtime/pipe/module.py). ZeRO-2 and 3 it refuses
// beside pipelines (deepspeed/runtime/pipe/engine.py).

#include "planner/targets/rules.hpp"

namespace stagecraft {

namespace {

constexpr std::array<std::string_view, 1> schedules_of_deepspeed{"1f1b"};
constexpr std::array recompute_in_deepspeed{RecomputeEverywhere::none, RecomputeEverywhere::layers,
                                            RecomputeEverywhere::stages};

}  // namespace

const Target deepspeed_target{.name = "deepspeed",
                              .version = "0.19.8",
                              .system = "DeepSpeed",
                              .format = "deepspeed",
                              .schedules = schedules_of_deepspeed,
                              .recompute = recompute_in_deepspeed,
                              .context_parallel = false,
                              .expert_parallel = false,
                              .sharding = sharded_states,
                              .precision = usual_precisions};

}  // namespace stagecraft
