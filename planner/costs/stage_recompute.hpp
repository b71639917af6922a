// What a stage does again, in words, and whether it says so layer by layer.

#pragma once

#include <functional>
#include <optional>
#include <string>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// Layers of the stage that do this again by themselves.
int layers_again(const Stage& stage, Recomputed what);

/// Of these layers, which are some of the stage's, so many at a time do all of themselves again
/// together, the last ones fewer.
void recompute_in_runs(Stage& stage, const LayerRange& layers, int length);

/// So many at a time, where that is what all stages do with their `layers_of` and no other ones.
std::optional<int> length_of_runs(const Plan& plan,
                                  const std::function<LayerRange(const Stage&)>& layers_of);

/// What each of the model's layers does again by itself where all stages do this; empty: nothing.
std::vector<Recomputed> again_everywhere(const Model& model, RecomputeEverywhere what);

/// Gives the stage its part of that (`Stage::again`), or makes it recompute as a whole.
void recompute_everywhere(Stage& stage, RecomputeEverywhere what,
                          const std::vector<Recomputed>& again);

/// "none", "full" (the stage as a whole), "selective" (every layer), "3 of 10 layers",
/// "2 of 10 layers selective", "3 of 10 layers + 2 selective", "8 of 10 layers in 2 runs".
std::string recompute_in_words(const Stage& stage);

}  // namespace stagecraft
