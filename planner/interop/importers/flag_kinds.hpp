// The flags of Megatron-LM's releases, and of the programs made of it, that plans do not take over:
// those that change how a step runs, and those that do not.

#pragma once

#include <string_view>

namespace stagecraft {

enum class FlagKind {
  not_modelled,  ///< changes a step's time, its memory or its stages, but plans do not have it
  no_bearing,    ///< names, data, learning rates, logs, checkpoints, evaluation, the model's inside
  unknown,
};

/// `name` as `plain_flag_name` has it.
FlagKind kind_of_flag(std::string_view name);

/// Whether the members of this part of a recipe are about something else than how a step runs:
/// "exp_manager", "model.data", "trainer.callbacks".
bool is_section_without_bearing(std::string_view section);

}  // namespace stagecraft
