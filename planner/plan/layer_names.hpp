// Names of a transformer's layers in other systems, and the layers that these systems count.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// The layers between embeddings and heads, which Megatron-LM and others call "layers".
LayerRange transformer_layers(const Model& model);
/// The transformer layers before the modules of multi-token prediction.
LayerRange decoder_layers(const Model& model);

/// Finds a layer by its own name ("block.3") or by the name of its PyTorch module ("layers.3",
/// "model.layers.3", "transformer.h.3"; "tok_embeddings", "wte"; "norm", "lm_head"). The head layer
/// may stand for several modules. Throws Error (input) with a suggestion for an unknown name.
int find_layer(const Model& model, std::string_view name);

/// The modules that make up each layer, by the names of one system.
enum class ModuleNames {
  torchtitan,    ///< tok_embeddings, layers.0, …, norm, lm_head (0.3.0; output before)
  hugging_face,  ///< names of the GPT-2 or the Llama family
};
/// The names of each layer's modules. For a model that is not a transformer, each layer's own name.
/// Throws Error (input) for a transformer whose modules have no single set of names in that system.
std::vector<std::vector<std::string>> module_names(const Model& model, ModuleNames names);

/// The names of each layer's modules in Hugging Face's transformers, for an architecture as
/// `transformers_architecture` names it ("gpt_neox"); for an empty one, as `module_names`. Throws
/// Error (input) for an unknown architecture, and for modules of multi-token prediction, which
/// transformers leaves out.
std::vector<std::vector<std::string>> hugging_face_modules(const Model& model,
                                                           std::string_view architecture);

}  // namespace stagecraft
