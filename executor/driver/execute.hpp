// Making it happen: carries out a plan's program on real devices, one rank per device, and measures
// it.

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
  cpu,    ///< really computes
  cuda,   ///< the same on GPUs: each rank's first choice is the GPU of its own number
  sleep,  ///< each instruction sleeps for its predicted time: schedules and transports at full
          ///< size, without the arithmetic
};

/// Told after every step.
struct StepReport {
  int step = 0;  ///< from 0, since training began
  double loss = 0;
  Duration time{0};
};

struct RunOptions {
  int steps = 1;  ///< of this run, behind those of `resume`
  BackendKind backend = BackendKind::cpu;
  CudaOptions cuda = {};  ///< of BackendKind::cuda
  std::uint64_t seed = 1;
  /// What weights start from, by name (see weights.hpp); empty: drawn from the seed.
  std::map<std::string, Tensor> weights;
  AdamW adamw;
  Sgd sgd;
  /// If the norm of all gradients is larger, they are scaled to it (Pascanu et al., "On the
  /// difficulty of training recurrent neural networks", 2013); 0: never. The program must have the
  /// norm (`know_norm`).
  double clip_norm = 0;
  /// A language model's head makes logits of so many rows at a time, and once more for its weight's
  /// gradient, instead of keeping all of a microbatch; 0: all.
  std::int64_t loss_rows = 0;
  /// What training goes on from; null: it begins. Weights, moments and samples are its own.
  std::shared_ptr<const Checkpoint> resume;
  CheckpointOptions checkpoints;
  /// Whether the result has the final weights and their hash, for which rank 0 collects them all.
  bool gathers_weights = true;
  int traced_steps = 0;  ///< of so many of the last steps the result has a timeline; 64 at most
  std::function<void(const StepReport&)> on_step;
  std::stop_token stop;  ///< ends after the current step; on any rank
  /// The signal that `stop` comes from, if it does (0: it does not).
  const std::atomic<int>* stop_signal = nullptr;
  Oversight oversight;
};

/// Done before this run, by what it goes on from.
inline int steps_before(const RunOptions& options) {
  return options.resume ? options.resume->position.steps : 0;
}

/// Who was asked to stop, by a signal, before the planned end.
struct StoppedRank {
  int rank = 0;
  std::string name;  ///< "rank 3 (stage 1, replica 0)"; of rank 0 it stands for the whole run
  int signal = 0;
};

struct RunResult {
  std::vector<double>
      losses;  ///< mean over the global batch's tokens, per step; empty under `sleep`
  std::vector<Duration> step_times;
  Timeline timeline;  ///< of the step with the median time, from its common start
  Timeline traced;  ///< of the last `traced_steps`, as iterations; without spans if none were asked
  /// Per program device (of peers the most): what lived at once at most, by the lives of buffers in
  /// its arena, or of tensors where there is none.
  std::vector<Bytes> peak_memory;
  std::vector<Bytes> allocated_memory;  ///< what it asked its backend for: the arena
  /// By simulation of the program that was run; empty under `sleep`.
  std::vector<Bytes> simulated_memory;
  std::vector<std::string> parameter_names;
  /// Final weights by canonical name, ascending; tied weights once. Empty, as names and hash,
  /// unless they were asked for.
  std::vector<Tensor> parameters;
  std::vector<WrittenCheckpoint> checkpoints;
  std::optional<StoppedRank> stopped;
  std::string parameters_hash;  ///< "xxh3:…" over names and bytes; empty under `sleep`
};

/// Runs the plan. The program must be safe (checked first). Throws Error (execution) with one root
/// cause if a rank fails; all other ranks have stopped by then.
RunResult execute(const Plan& plan, const Profile& profile, const Compiled& compiled,
                  const Dataset& dataset, const RunOptions& options);

/// The same training on one device and one thread, written independently of programs: microbatch by
/// microbatch, each replica's rows by the same calls, sums in the plan's order. The oracle of
/// `--verify`.
RunResult run_reference(const Plan& plan, const Profile& profile, const Dataset& dataset,
                        const RunOptions& options);

/// Empty if losses and weights are bitwise equal, else the first difference in words.
std::string first_difference(const RunResult& run, const RunResult& reference);

/// How far two runs of one model are apart.
struct Distance {
  double losses = 0;   ///< the largest, relative to the reference's loss
  double weights = 0;  ///< of all final weights as one vector, relative to its length
};
/// Throws Error (check) if they do not have the same losses and weights to compare.
Distance distance(const RunResult& run, const RunResult& reference);

/// What either may be where tensor-parallel peers add up products in another order.
constexpr double rounding_tolerance(Precision precision) {
  return precision == Precision::float64 ? 1e-12 : 1e-5;
}

}  // namespace stagecraft
