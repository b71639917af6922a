// The parts of measure_profile: one layer's cost, and the link between two ranks.

#pragma once

#include <cstdint>

#include "executor/measurement/measure.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// A layer's cost, and the number of ranks that were busy when it was timed, which is reduced if
/// memory is short.
struct MeasuredCost {
  LayerCost cost;
  MeasuredRanges ranges;
  int ranks = 1;
};

/// The share of a microbatch that is measured.
struct MeasuredShare {
  std::int64_t samples = 1;  ///< samples of the model's sequence length
  int tensor_parallel = 1;   ///< the layer is divided among this many peers
};
MeasuredCost measure_layer(const Model& model, int index, const MeasuredShare& work,
                           const MeasureOptions& options);

/// Whether this many peers can be measured at once, each on a device of its own; else a single peer
/// is measured, without the others' parts of sums.
bool peers_meet(const MeasureOptions& options, int tensor_parallel);

/// Measures the link between two ranks that are threads, for messages of this size (or larger, if
/// that is needed to measure bandwidth).
Link measure_hand_over(Bytes message, const MeasuredDevice& device);

/// The requested number of busy ranks; by default one per core, or one on other devices.
int busy_ranks(const MeasureOptions& options);

/// The quantile at the fraction `part`; `values` must not be empty.
double quantile(std::vector<double> values, double part);

}  // namespace stagecraft
