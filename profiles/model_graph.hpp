// Questions about a model's graph that Boost.Graph answers.

#pragma once

#include "profiles/model.hpp"

namespace stagecraft {

/// Throws Error (input) naming the layers of a cycle, if there is one.
void refuse_cycle(const Model& model);

/// Throws Error (input) if the layers fall into parts without a connection.
void refuse_parts(const Model& model);

/// The model with its layers in this order (indices into its layers), edges sorted.
Model reordered(Model model, const std::vector<int>& order);

}  // namespace stagecraft
