// The parts of measure_profile: one layer's cost, and the link between two ranks.

#pragma once

#include <cstdint>

#include "executor/measure.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// A layer's cost, and how many ranks were busy when it was timed: fewer than asked for where
/// memory is short.
struct MeasuredCost {
  LayerCost cost;
  int ranks = 1;
};

/// For `samples` of the model's sequence length.
MeasuredCost measure_layer(const Model& model, int index, std::int64_t samples,
                           const MeasureOptions& options);

/// Between two ranks that are threads, for messages of this size (or larger, where it takes that to
/// measure bandwidth).
Link measure_hand_over(Bytes message, const MeasuredDevice& device);

/// Of one message of this size, a multiple of 4 bytes: from one rank to another, there and back
/// halved; the median of many.
Duration measure_one_way(Bytes bytes, const MeasuredDevice& device);

/// The ranks asked for, or one per core, or one on another device.
int busy_ranks(const MeasureOptions& options);

/// The value that this part of the others lies below; `values` is not empty.
double quantile(std::vector<double> values, double part);

}  // namespace stagecraft
