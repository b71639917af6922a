// The models that torchtitan has configurations of: what it is to train has to be one of them.

#pragma once

#include <string>
#include <string_view>

#include "profiles/model.hpp"

namespace stagecraft {

/// One flavor of a module of torchtitan.models, and its numbers.
struct TitanModel {
  std::string_view module;    ///< "llama3"
  std::string_view flavor;    ///< as its `model_registry` takes it: "8B"
  std::string_view function;  ///< of its config_registry, of this flavor or another one
  std::int64_t hidden = 0;
  int blocks = 0;
  std::int64_t vocabulary = 0;
  std::int64_t experts = 0;
};

/// The one with the model's numbers, whatever the model is called; null if there is none.
const TitanModel* find_titan_model(const Model& model);

/// Our name of a module's flavor; empty if no built-in model is it.
std::string_view builtin_of_titan(std::string_view module, std::string_view flavor);
/// The same of a function of a config_registry: "llama3_8b".
std::string_view builtin_of_titan_function(std::string_view module, std::string_view function);

/// "llama3 1B 3B 8B, qwen3 0.6B …": all there are.
std::string titan_models_in_words();

}  // namespace stagecraft
