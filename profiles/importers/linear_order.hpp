// One order for the layers of a branching graph.

#pragma once

#include <vector>

#include "profiles/model.hpp"

namespace stagecraft {

/// Layers (indices into the model) in a topological order that keeps few bytes open: of the layers
/// that are ready, always the one that leaves the least unread output behind it; among equals the
/// one that became ready last, which follows a branch to its end before it starts the next. The
/// graph must have no cycle; `outputs` are bytes per layer.
///
/// A stage boundary hands over what is open there, so boundaries between two branches get cheap.
/// On the published graphs this leaves about as few bytes open as following branches alone, and
/// for sequence-to-sequence and cell-search networks a fifth to a quarter less.
std::vector<int> linear_order(const Model& model, const std::vector<Bytes>& outputs);

}  // namespace stagecraft
