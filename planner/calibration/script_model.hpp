// The model that a launch of Megatron-LM trains, as its flags describe it.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/interop/importers.hpp"
#include "profiles/model.hpp"

namespace stagecraft {

/// The model that a launch script describes.
struct ScriptModel {
  std::string builtin;  ///< the built-in model of these numbers; empty: there is none
  Model model;          ///< called as the script's file is, unless it is built in
  int blocks = 0;
  bool has_vocabulary = true;  ///< else GPT-2's is taken, as Megatron-LM does
};

/// From the first launch of the file that says how many layers of which width there are; nothing
/// where none does, or where variables that these follow from have no value. Throws Error (input)
/// at the place of what is no number, and as `read_flags`.
std::optional<ScriptModel> model_of_script(std::string_view content, const std::string& file,
                                           const ScriptVariables& variables);

}  // namespace stagecraft
