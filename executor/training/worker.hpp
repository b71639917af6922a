// A worker: carries out one rank's part of a program, step by step. Called on the rank's own thread
// only.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "executor/checkpoints/checkpoint.hpp"
#include "executor/flight/record.hpp"
#include "executor/layers/layer.hpp"
#include "executor/training/recording.hpp"

namespace stagecraft {

/// The loss of a microbatch on a chunk with the head, summed over its tokens.
struct ChunkLoss {
  int microbatch = 0;
  int chunk = 0;
  double loss = 0;
  auto operator<=>(const ChunkLoss&) const = default;
};

/// A weight of a chunk, or the part of it that the rank holds.
struct HeldWeight {
  int chunk = 0;
  const ParameterSpec* spec = nullptr;
  Tensor weight;
};

/// A piece of the training state.
struct HeldState {
  const ParameterSpec* spec = nullptr;
  StateKind kind = StateKind::weight;
  WeightSlice slice;
  Tensor values;    ///< elements in the order of the slice, in the backend's memory
  int updates = 0;  ///< updates of the weight since training began
};

class Worker {
 public:
  virtual ~Worker() = default;

  /// Executes the program once, and records the times.
  virtual void step(int step, StepRecord& record) = 0;
  /// Losses of the last step; empty if nothing is computed.
  virtual std::vector<ChunkLoss> losses() = 0;
  /// The current weights; empty if nothing is computed. Valid until the next step.
  virtual std::vector<HeldWeight> weights() = 0;
  /// The rank's part of a checkpoint: each piece of the model's state belongs to one rank. Valid
  /// until the next step; empty if nothing is computed.
  virtual std::vector<HeldState> state() { return {}; }
  /// Peak memory since the run began.
  virtual Bytes peak_memory() const = 0;
  /// Maximum memory allocated from its backend.
  virtual Bytes allocated_memory() const { return peak_memory(); }

  /// Sets the flight record to report to, which must outlive it.
  void report_to(FlightRecord& flight) { flight_ = &flight; }

 protected:
  /// Reports that this work of the program begins.
  void begin(int work) {
    if (flight_ != nullptr) flight_->begin(work);
  }
  /// Reports that all work is issued, but the device has not finished it.
  void begin_to_finish() {
    if (flight_ != nullptr) flight_->begin(Doing::between);
  }

 private:
  FlightRecord* flight_ = nullptr;
};

}  // namespace stagecraft
