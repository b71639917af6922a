// torchtitan: transformers over torch.distributed.pipelining, with activation checkpoints around
// each block or none (torchtitan/distributed/activation_checkpoint.py).

#include "planner/targets/rules.hpp"

namespace stagecraft {

namespace {

constexpr std::array recompute_in_torchtitan{RecomputeEverywhere::none,
                                             RecomputeEverywhere::blocks};

}  // namespace

const Target torchtitan_target{.name = "torchtitan",
                               .version = "0.3.0",
                               .system = "torchtitan",
                               .format = "torch",
                               .schedules = torch_schedules,
                               .recompute = recompute_in_torchtitan,
                               .only_transformers = true,
                               .sharding = whole_states,
                               .precision = usual_precisions,
                               .refuses = torch_refuses};

}  // namespace stagecraft
