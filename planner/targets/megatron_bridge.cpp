// Megatron Bridge: recipes over Megatron Core, whose rules are its own.

#include "planner/targets/rules.hpp"

namespace stagecraft {

const Target megatron_bridge_target =
    over_megatron_core("megatron-bridge", "0.6.2", "Megatron Bridge", FusedLoss::te);

}  // namespace stagecraft
