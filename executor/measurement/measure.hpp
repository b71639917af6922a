// Measuring what layers cost on this machine.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/backends/backend.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// What layers are measured on.
struct MeasuredDevice {
  std::string kind = "cpu";  ///< of the cluster's devices, as the profile's costs name it
  std::string description;   ///< "GPU 0 (NVIDIA H200), CUDA 13.0"; empty: this machine's CPU
  int devices = 1;           ///< with a rank each; of a CPU, its busy ranks count instead
  Bytes memory = 0;          ///< of each; 0: what the kind has
  /// Of the rank's own device. Messages go between those of ranks 0 and 1.
  std::function<std::unique_ptr<Backend>(int rank)> make_backend = [](int) {
    return make_cpu_backend();
  };

  bool is_cpu() const { return description.empty(); }
};

struct MeasureOptions {
  MeasuredDevice device;
  std::vector<std::int64_t> microbatches{1};
  /// Degrees: layers are measured as one of so many peers has them.
  std::vector<int> tensor_parallel{1};
  std::int64_t sequence = 0;  ///< default: the model's
  Precision precision = Precision::float32;
  std::int64_t loss_rows = 0;  ///< as in RunOptions
  int repeats = 9;             ///< after the warm-up
  int warm_up = 3;
  /// Threads that compute at the same time, as in a run; default: the machine's cores, one on
  /// another device.
  int busy_ranks = 0;
  std::function<void(double done, const std::string& what)> progress;
};

/// Times every distinct layer's forward, backward-input, backward-weight and update (median,
/// tenths), counts the bytes it keeps, hands over and works with, and the hand-over bandwidth and
/// latency between two ranks. Layers of equal kind and shape are measured once. Peers work at the
/// same time, and their sums are part of their times, where there are devices for all of them; else
/// the entry says that they are not (`ProfileEntry::has_peer_messages`). Throws Error (input) for
/// layers the executor cannot train, or not in such parts.
Profile measure_profile(const Model& model, const MeasureOptions& options);

}  // namespace stagecraft
