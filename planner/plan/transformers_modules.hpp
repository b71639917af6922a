// Names of modules in Hugging Face's transformers (5.23): of each architecture by its model_type,
// what stands before its blocks, where these are, and what stands behind them. Checked against the
// library's own models by `tools/peers/check_partitions.py`.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/json.hpp"

namespace stagecraft {

/// Names of one system's modules; blocks are numbered behind `block`.
struct ModuleVocabulary {
  std::vector<std::string> embedding;
  std::string block;
  std::vector<std::string> head;
};

/// Of a config.json, its model_type; with what decides whether a module is there behind it
/// ("gemma4_text+per_layer"). Empty where there is no model_type.
std::string transformers_architecture(const Json& config);

/// Nothing for an architecture that is not known here.
std::optional<ModuleVocabulary> transformers_modules(std::string_view architecture);

/// Whether any architecture calls a module so ("norm_f"), which is the last word of its path.
bool is_embedding_module(std::string_view word);
bool is_head_module(std::string_view word);

}  // namespace stagecraft
