// A stage's recomputation: per layer, in runs of layers, and in words.

#pragma once

#include <functional>
#include <optional>
#include <string>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// Number of the stage's layers with this recomputation per layer.
int layers_again(const Stage& stage, Recomputed what);

/// Makes these layers of the stage recompute fully in runs of `length` layers; the last run may be
/// shorter.
void recompute_in_runs(Stage& stage, const LayerRange& layers, int length);

/// The length of runs, if all stages recompute exactly their `layers_of` in runs of one length.
std::optional<int> length_of_runs(const Plan& plan,
                                  const std::function<LayerRange(const Stage&)>& layers_of);

/// The recomputation of each of the model's layers under this setting for all stages; empty: none.
std::vector<Recomputed> again_everywhere(const Model& model, RecomputeEverywhere what);

/// Sets the stage's recomputation for this setting: `Stage::again`, or the stage as a whole.
void recompute_everywhere(Stage& stage, RecomputeEverywhere what,
                          const std::vector<Recomputed>& again);

/// "none", "full" (the stage as a whole), "selective" (every layer), "3 of 10 layers",
/// "2 of 10 layers selective", "3 of 10 layers + 2 selective", "8 of 10 layers in 2 runs".
std::string recompute_in_words(const Stage& stage);

}  // namespace stagecraft
