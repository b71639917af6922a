// Executes a plan's program on real devices, one rank per device, and measures it.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "executor/backends/backend.hpp"
#include "executor/backends/cuda.hpp"
#include "executor/checkpoints/checkpoint.hpp"
#include "executor/driver/oversight.hpp"
#include "executor/values/data.hpp"
#include "planner/costs/predict.hpp"
#include "planner/plan/plan.hpp"
#include "simulator/values/timeline.hpp"

namespace stagecraft {

enum class BackendKind {
  cpu,    ///< computes on the CPU
  cuda,   ///< computes on GPUs: each rank prefers the GPU of its own number
  sleep,  ///< each instruction sleeps for its predicted time: schedules and transports at full
          ///< size, without the arithmetic
};

/// Reported after every step.
struct StepReport {
  int step = 0;  ///< step number since training began, from 0
  double loss = 0;
  Duration time{0};
};

struct RunOptions {
  int steps = 1;  ///< steps of this run, after those of `resume`
  BackendKind backend = BackendKind::cpu;
  CudaOptions cuda = {};  ///< options of BackendKind::cuda
  std::uint64_t seed = 1;
  /// Initial weights by name (see weights.hpp); empty: drawn from the seed.
  std::map<std::string, Tensor> weights;
  AdamW adamw;
  Sgd sgd;
  /// Gradient clipping: gradients are scaled so that their norm is at most this (Pascanu et al.,
  /// "On the difficulty of training recurrent neural networks", 2013); 0: no clipping. The program
  /// must compute the norm (`know_norm`).
  double clip_norm = 0;
  /// Number of rows for which a language model's head computes logits at a time, and again for its
  /// weight's gradient, instead of keeping those of the whole microbatch; 0: all rows.
  std::int64_t loss_rows = 0;
  /// The checkpoint that training continues from, with its weights, moments and position in the
  /// data; null: training begins.
  std::shared_ptr<const Checkpoint> resume;
  CheckpointOptions checkpoints;
  /// Whether rank 0 collects the final weights and their hash for the result.
  bool gathers_weights = true;
  int traced_steps = 0;  ///< number of last steps whose timelines are recorded; at most 64
  std::function<void(const StepReport&)> on_step;
  std::stop_token stop;  ///< ends the run after the current step; may be requested on any rank
  /// The signal that requested the stop; 0: none.
  const std::atomic<int>* stop_signal = nullptr;
  Oversight oversight;
};

/// Number of steps before this run, from its checkpoint.
inline int steps_before(const RunOptions& options) {
  return options.resume ? options.resume->position.steps : 0;
}

/// A rank that a signal stopped before the planned end.
struct StoppedRank {
  int rank = 0;
  std::string name;  ///< "rank 3 (stage 1, replica 0)"; rank 0 stands for the whole run
  int signal = 0;
};

struct RunResult {
  std::vector<double>
      losses;  ///< mean over the global batch's tokens, per step; empty under `sleep`
  std::vector<Duration> step_times;
  Timeline timeline;  ///< timeline of the step with the median time, from its common start
  Timeline traced;    ///< timeline of the last `traced_steps`, as iterations; without spans if none
                      ///< were requested
  /// Per program device (maximum over peers): peak of live memory, by the lives of buffers in its
  /// arena, or of tensors if there is no arena.
  std::vector<Bytes> peak_memory;
  std::vector<Bytes> allocated_memory;  ///< memory allocated from its backend: the arena
  /// Peak memory by simulation of the program; empty under `sleep`.
  std::vector<Bytes> simulated_memory;
  std::vector<std::string> parameter_names;
  /// Final weights in ascending order of canonical names; tied weights once. Empty, like names and
  /// hash, unless requested.
  std::vector<Tensor> parameters;
  std::vector<WrittenCheckpoint> checkpoints;
  std::optional<StoppedRank> stopped;
  std::string parameters_hash;  ///< "xxh3:…" over names and bytes; empty under `sleep`
};

/// Runs the plan. The program is checked first, and must be safe. Throws Error (execution) with the
/// root cause if a rank fails, after all other ranks have stopped.
RunResult execute(const Plan& plan, const Profile& profile, const Compiled& compiled,
                  const Dataset& dataset, const RunOptions& options);

/// The reference of `--verify`: the same training on one device and one thread, implemented
/// independently of programs: microbatch by microbatch, each replica's rows by the same calls, with
/// sums in the plan's order.
RunResult run_reference(const Plan& plan, const Profile& profile, const Dataset& dataset,
                        const RunOptions& options);

/// The first difference in words; empty if losses and weights are bitwise equal.
std::string first_difference(const RunResult& run, const RunResult& reference);

/// The difference between two runs of one model.
struct Distance {
  double losses = 0;   ///< largest difference, relative to the reference's loss
  double weights = 0;  ///< norm of the difference of all final weights as one vector, relative to
                       ///< the reference's norm
};
/// Throws Error (check) if the runs do not have the same losses and weights to compare.
Distance distance(const RunResult& run, const RunResult& reference);

/// Tolerance for both if tensor-parallel peers sum products in another order.
constexpr double rounding_tolerance(Precision precision) {
  return precision == Precision::float64 ? 1e-12 : 1e-5;
}

}  // namespace stagecraft
