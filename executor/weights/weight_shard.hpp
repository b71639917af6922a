// Where the part of a weight that a tensor-parallel peer holds lies in the whole.

#pragma once

#include <vector>

#include "executor/layers/layer.hpp"

namespace stagecraft {

/// Consecutive elements of the whole.
struct ElementRun {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const ElementRun&) const = default;
};

/// The part's elements, in its order; of a whole weight one run.
std::vector<ElementRun> runs_of(const ParameterSpec& spec);
std::vector<std::int64_t> whole_shape(const ParameterSpec& spec);

/// The part's elements out of the whole's, and into it. Sizes are the caller's promise.
void copy_part(const ParameterSpec& spec, const Tensor& whole, Tensor& part);
void copy_into_whole(const ParameterSpec& spec, const Tensor& part, Tensor& whole);

}  // namespace stagecraft
