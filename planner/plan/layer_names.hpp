// What other systems call the layers of a transformer, and which of them they count.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// What lies between embeddings and heads: what Megatron-LM and others mean by "layers".
LayerRange transformer_layers(const Model& model);
/// Of them, those before the modules of multi-token prediction.
LayerRange decoder_layers(const Model& model);

/// The layer that goes by this name: its own ("block.3"), or that of its module in PyTorch
/// ("layers.3", "model.layers.3", "transformer.h.3"; "tok_embeddings", "wte"; "norm", "lm_head").
/// One head of ours may be several modules. Throws Error (input) with a suggestion otherwise.
int find_layer(const Model& model, std::string_view name);

/// The modules that make up each layer, by the names of one system.
enum class ModuleNames {
  torchtitan,    ///< tok_embeddings, layers.0, …, norm, lm_head (0.3.0; output before)
  hugging_face,  ///< of the GPT-2 or the Llama family
};
/// Where the model is no transformer, each layer's own name. Throws Error (input) for a transformer
/// whose modules that system has no one set of names for.
std::vector<std::vector<std::string>> module_names(const Model& model, ModuleNames names);

/// The same in Hugging Face's transformers, of an architecture as `transformers_architecture` names
/// it ("gpt_neox"); with an empty one as `module_names` has them. Throws Error (input) for one
/// whose names are not known, and for modules of multi-token prediction, which transformers leaves
/// out.
std::vector<std::vector<std::string>> hugging_face_modules(const Model& model,
                                                           std::string_view architecture);

}  // namespace stagecraft
