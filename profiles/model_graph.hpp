// Questions about a model's graph that Boost.Graph answers.

#pragma once

#include <functional>
#include <optional>

#include "profiles/error.hpp"
#include "profiles/model.hpp"

namespace stagecraft {

/// Where a file has the layer, if that is known.
using LayerPlace = std::function<std::optional<SourcePlace>(int layer)>;

/// Throws Error (input) naming the layers of a cycle, if there is one.
void refuse_cycle(const Model& model, const LayerPlace& place = {});

/// Throws Error (input) if the layers fall into parts without a connection, naming a layer of the
/// smallest.
void refuse_parts(const Model& model, const LayerPlace& place = {});

/// The model with its layers in this order (indices into its layers), edges sorted.
Model reordered(Model model, const std::vector<int>& order);

}  // namespace stagecraft
