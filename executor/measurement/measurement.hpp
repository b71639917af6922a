// The parts of measure_profile: one layer's cost, and the link between two ranks.

#pragma once

#include <cstdint>

#include "executor/measurement/measure.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// A layer's cost, and how many ranks were busy when it was timed: fewer than asked for where
/// memory is short.
struct MeasuredCost {
  LayerCost cost;
  MeasuredRanges ranges;
  int ranks = 1;
};

/// Which part of which microbatch.
struct MeasuredShare {
  std::int64_t samples = 1;  ///< of the model's sequence length
  int tensor_parallel = 1;   ///< the layer is one of so many peers'
};
MeasuredCost measure_layer(const Model& model, int index, const MeasuredShare& work,
                           const MeasureOptions& options);

/// Whether so many peers can be measured at once, each with a device of its own; else one is
/// measured, to whom the others' parts of sums are nothing.
bool peers_meet(const MeasureOptions& options, int tensor_parallel);

/// Between two ranks that are threads, for messages of this size (or larger, where it takes that to
/// measure bandwidth).
Link measure_hand_over(Bytes message, const MeasuredDevice& device);

/// The ranks asked for, or one per core, or one on another device.
int busy_ranks(const MeasureOptions& options);

/// The value that this part of the others lies below; `values` is not empty.
double quantile(std::vector<double> values, double part);

}  // namespace stagecraft
