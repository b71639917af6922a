// Names and layouts of a model's weights in other systems.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/layers/layer.hpp"

namespace stagecraft {

/// One tensor of a file: columns [first, end) of a weight [rows, columns], or elements of a vector.
struct WeightPart {
  std::string name;
  std::int64_t first = 0;
  std::int64_t end = 0;
  /// Stored as [columns, rows], as PyTorch's linear layers are.
  bool transposed = false;
  /// Stored head by head, of each its queries, keys and values, where ours are all queries, all
  /// keys and all values (GPT-NeoX); 0: as they are.
  std::int64_t heads = 0;
};

/// One of our weights, and the tensors it is made of, from the first column to the last.
struct WeightNames {
  ParameterSpec spec;
  std::vector<WeightPart> parts;
};

/// How a family of models is called in files.
struct WeightNaming {
  std::string_view family;
  /// Hugging Face's models without a head leave this out before every other name: "transformer.".
  std::string_view prefix;
  /// Ends of names of tensors that hold no weights.
  std::vector<std::string_view> buffers;
  std::vector<WeightNames> weights;  ///< each once, tied or not
};

/// Hugging Face's names for GPT-2 (learned positions, layer norm, GELU), Llama (rotary positions,
/// RMS norm, SwiGLU) and those whose blocks differ from these; torchvision's for VGG; our own for
/// any other model. Throws Error (input) if the executor cannot train the model.
WeightNaming weight_naming(const Model& model);

}  // namespace stagecraft
