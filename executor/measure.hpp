// Measuring what layers cost on this machine.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "profiles/profile.hpp"

namespace stagecraft {

struct MeasureOptions {
  std::vector<std::int64_t> microbatches{1};
  std::int64_t sequence = 0;  ///< default: the model's
  Precision precision = Precision::float32;
  int repeats = 9;  ///< after the warm-up
  int warm_up = 3;
  int busy_ranks =
      0;  ///< threads that compute at the same time, as in a run; default: the machine's cores
  std::function<void(double done, const std::string& what)> progress;
};

/// Times every distinct layer's forward, backward-input, backward-weight and update (median,
/// spread), counts the bytes it keeps, hands over and works with, and the hand-over bandwidth and
/// latency between two ranks. Layers of equal kind and shape are measured once. Throws Error
/// (input) for layers the executor cannot train.
Profile measure_profile(const Model& model, const MeasureOptions& options);

}  // namespace stagecraft
