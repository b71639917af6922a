// Megatron Bridge: recipes over Megatron Core, whose rules are its own.

#include "planner/targets/rules.hpp"

namespace stagecraft {

const Target megatron_bridge_target{.name = "megatron-bridge",
                                    .version = "0.6.2",
                                    .system = "Megatron Bridge",
                                    .format = "megatron",
                                    .schedules = megatron_schedules,
                                    .recompute = megatron_recompute,
                                    .keeps_ends = true,
                                    .only_transformers = true,
                                    .gradient_buckets = true,
                                    .sharding = sharded_states,
                                    .precision = precisions_with_fp8,
                                    .refuses = megatron_refuses};

}  // namespace stagecraft
