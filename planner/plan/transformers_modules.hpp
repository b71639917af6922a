// Names of modules in Hugging Face's transformers (5.23): for each architecture, by its model_type,
// the modules before the blocks, the path of the blocks, and the modules after them. Checked
// against the library's own models by `tools/peers/check_partitions.py`.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/json.hpp"

namespace stagecraft {

/// Module names of one system; a block's number follows `block`.
struct ModuleVocabulary {
  std::vector<std::string> embedding;
  std::string block;
  std::vector<std::string> head;
};

/// The model_type of a config.json, followed by properties that decide whether a module exists
/// ("gemma4_text+per_layer"). Empty if there is no model_type.
std::string transformers_architecture(const Json& config);

/// The vocabulary of an architecture; nothing for an unknown one.
std::optional<ModuleVocabulary> transformers_modules(std::string_view architecture);

/// Whether some architecture has a module whose path ends with this word ("norm_f").
bool is_embedding_module(std::string_view word);
bool is_head_module(std::string_view word);

}  // namespace stagecraft
