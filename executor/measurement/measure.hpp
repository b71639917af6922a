// Measurement of layer costs on this machine.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/backends/backend.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// The device on which layers are measured.
struct MeasuredDevice {
  std::string kind = "cpu";  ///< device kind, as named in the profile's costs
  std::string description;   ///< "GPU 0 (NVIDIA H200), CUDA 13.0"; empty: this machine's CPU
  int devices = 1;           ///< number of devices, with one rank each; for a CPU, `busy_ranks`
                             ///< counts instead
  Bytes memory = 0;          ///< memory of each device; 0: that of the kind
  /// Makes the backend of the rank's own device. Messages are measured between ranks 0 and 1.
  std::function<std::unique_ptr<Backend>(int rank)> make_backend = [](int) {
    return make_cpu_backend();
  };

  bool is_cpu() const { return description.empty(); }
};

struct MeasureOptions {
  MeasuredDevice device;
  std::vector<std::int64_t> microbatches{1};
  /// Tensor-parallel degrees: layers are measured as divided among this many peers.
  std::vector<int> tensor_parallel{1};
  std::int64_t sequence = 0;  ///< default: the model's
  Precision precision = Precision::float32;
  std::int64_t loss_rows = 0;  ///< as in RunOptions
  int repeats = 9;             ///< number of repetitions after the warm-up
  int warm_up = 3;
  /// Number of threads that compute at the same time, as in a run; default: the machine's cores, or
  /// one on other devices.
  int busy_ranks = 0;
  std::function<void(double done, const std::string& what)> progress;
};

/// Times the forward, backward-input, backward-weight and update of every distinct layer (median
/// and tenths), counts its saved, boundary and workspace bytes, and measures bandwidth and latency
/// between two ranks. Layers of equal kind and shape are measured once. If there are devices for
/// all peers, they compute at the same time and their times include their sums; else the entry
/// records that they do not (`ProfileEntry::has_peer_messages`). Throws Error (input) for layers
/// that the executor cannot train, or cannot divide in this way.
Profile measure_profile(const Model& model, const MeasureOptions& options);

}  // namespace stagecraft
