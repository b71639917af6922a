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

/// What a microbatch lost on its way through a chunk with the head: a sum over its tokens.
struct ChunkLoss {
  int microbatch = 0;
  int chunk = 0;
  double loss = 0;
  auto operator<=>(const ChunkLoss&) const = default;
};

/// A weight, or the part of it that the rank holds, as a chunk has it.
struct HeldWeight {
  int chunk = 0;
  const ParameterSpec* spec = nullptr;
  Tensor weight;
};

/// A piece of what training has come to.
struct HeldState {
  const ParameterSpec* spec = nullptr;
  StateKind kind = StateKind::weight;
  WeightSlice slice;
  Tensor values;    ///< in the order of the slice, in the backend's memory
  int updates = 0;  ///< of the weight, since training began
};

class Worker {
 public:
  virtual ~Worker() = default;

  /// Carries out the program once, and writes down when.
  virtual void step(int step, StepRecord& record) = 0;
  /// Of the step before; none where nothing is computed.
  virtual std::vector<ChunkLoss> losses() = 0;
  /// As they are now; none where nothing is computed. Valid until the next step.
  virtual std::vector<HeldWeight> weights() = 0;
  /// The rank's part of a checkpoint: each piece of the model's state is one rank's. Valid until
  /// the next step; none where nothing is computed.
  virtual std::vector<HeldState> state() { return {}; }
  /// The highest since the run began.
  virtual Bytes peak_memory() const = 0;
  /// The most it has asked its backend for.
  virtual Bytes allocated_memory() const { return peak_memory(); }

  /// Where it tells what it is at; must outlive it.
  void report_to(FlightRecord& flight) { flight_ = &flight; }

 protected:
  /// Carries out this work of the program from now on.
  void begin(int work) {
    if (flight_ != nullptr) flight_->begin(work);
  }
  /// All is asked for; the device is not done with it.
  void begin_to_finish() {
    if (flight_ != nullptr) flight_->begin(Doing::between);
  }

 private:
  FlightRecord* flight_ = nullptr;
};

}  // namespace stagecraft
