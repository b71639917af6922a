// Families of models whose weights have names of their own in files: a table for each.

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "profiles/model.hpp"

namespace stagecraft {

/// A weight within its layer, and what it is made of elsewhere. In `theirs`, "#" stands for the
/// block's number; in both, "*" for an expert's. Blocks with experts have rows of blocks.
struct NamedWeight {
  LayerKind kind;
  std::string_view ours;
  std::vector<std::string_view> theirs;
  bool transposed = false;
  bool interleaved = false;  ///< head by head: its queries, keys and values
};

/// How a family calls its weights, and the prefix that its models have without a head.
struct WeightFamily {
  std::string_view name;
  std::string_view prefix;
  std::vector<std::string_view> buffers;
  const std::vector<NamedWeight>* rows = nullptr;
};

/// Nothing for models that no family is known of.
std::optional<WeightFamily> weight_family_of(const Model& model);

}  // namespace stagecraft
