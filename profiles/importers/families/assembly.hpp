// A model from a family's blueprint and the head that "architectures" name.

#pragma once

#include <string>

#include "profiles/importers/families/blueprint.hpp"

namespace stagecraft {

enum class ModelHead {
  words,     ///< logits of the vocabulary
  none,      ///< the base model: its last states
  sequence,  ///< classes of a sequence (or image)
  tokens,    ///< classes of each token
  spans,     ///< where an answer begins and ends
  encoder,   ///< of an encoder-decoder model the encoder's last states only
};

/// By the end of the first of "architectures": "LlamaForSequenceClassification". Throws Error
/// (input) at the name if it is not known.
ModelHead read_head(const Json& outer, const Blueprint& blueprint);

/// Number of classes: "id2label", "num_labels", or `otherwise`.
std::int64_t read_classes(const Json& outer, std::int64_t otherwise);

/// Counts and costs for `sequence` tokens.
Model assemble(std::string name, const Blueprint& blueprint, ModelHead head, std::int64_t classes,
               std::int64_t sequence);

}  // namespace stagecraft
