// The data that all ranks of a run share and none changes.

#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/driver/execute.hpp"
#include "executor/layers/layer.hpp"

namespace stagecraft {

/// Stages and microbatches are numbered as in the schedule: the stages of its first pipe are the
/// plan's, and the copies in other pipes hold the same layers.
struct Training {
  const Plan& plan;
  const Dataset& dataset;
  const RunOptions& options;
  Schedule schedule;
  Model model;  ///< at the plan's sequence length
  std::vector<std::unique_ptr<TrainableLayer>> layers;
  int processors = 1;  ///< processors per rank for drawing initial weights

  /// Precision of the weights that layers use, of activations, and of messages.
  Precision precision() const { return plan.precision; }
  /// Precision of gradients and of optimizer states.
  Precision sums() const { return precision_of_sums(plan.precision); }
  /// Tokens of a sample; an image counts as one.
  std::int64_t sequence() const { return std::max<std::int64_t>(model.sequence, 1); }
  LayerRange range_of(int stage) const {
    return plan.stages[static_cast<std::size_t>(stage) % plan.stages.size()].layers;
  }
  /// Recomputation of a stage's layers; empty: none.
  std::span<const Recomputed> again_of(int stage) const {
    return plan.stages[static_cast<std::size_t>(stage) % plan.stages.size()].again;
  }
  /// The whole layers of a stage, without tensor parallelism.
  std::span<const std::unique_ptr<TrainableLayer>> layers_of(int stage) const;
  /// Shape of the stage's message to the next one.
  std::vector<std::int64_t> boundary_shape(int stage, std::int64_t rows) const;
  /// Number of pieces of each sequence; the schedule's "microbatch" is one piece.
  int pieces() const { return schedule.sequence_chunks; }
  /// Tokens of a sample in one piece.
  std::int64_t tokens_per_piece() const { return sequence() / pieces(); }
  /// Samples of one of the schedule's microbatches.
  std::int64_t rows() const { return plan.batch.microbatch * pieces() / schedule.parts; }
  std::int64_t tokens_per_step() const { return plan.batch.global * sequence(); }
  /// The position in training at which this run begins.
  TrainingPosition start() const {
    return options.resume ? options.resume->position : TrainingPosition{};
  }
  /// The factor that makes gradients those of the mean loss over one update.
  double loss_scale() const;
};

/// Whether the stage is the first, or the last, of its pipe.
inline bool is_first(const Schedule& schedule, int stage) {
  return stage % stages_per_pipe(schedule) == 0;
}
inline bool is_last(const Schedule& schedule, int stage) {
  return is_first(schedule, stage + 1);
}

/// The layers of a stage, or the parts that this peer holds.
std::vector<std::unique_ptr<TrainableLayer>> make_layers(const Training& training, int stage,
                                                         TensorPeers* peers);

/// Throws Error (input) if the executor cannot train this plan or the data do not suffice.
Training make_training(const Plan& plan, const Profile& profile, const Dataset& dataset,
                       const RunOptions& options);

/// The tokens of rows [first, end) of one microbatch, or piece, in one step of this run, numbered
/// within the stage's pipe: the pipes divide the batch in their order.
TokenBlock block_of(const Training& training, int step, int stage, int microbatch, IndexRange rows);
Samples samples_of(const Training& training, const TokenBlock& block);

/// A weight's initial value, in process memory and in the precision of sums: from the checkpoint,
/// from the run's given weights, or drawn from the seed. Throws Error (input) if weights are given
/// but lack this one in this shape, or if the checkpoint is damaged.
Tensor start_value(const Training& training, const ParameterSpec& spec);
/// Sets a tensor of the backend to numbers from process memory, rounded to its precision.
void set_value(Backend& backend, const Tensor& numbers, Tensor& tensor);

/// The optimizer's state of one weight: the moments, empty for SGD, and the master weight if layers
/// use its rounding to 16 bits (Micikevicius et al., "Mixed precision training", 2018), else empty.
struct OptimizerState {
  Tensor first_moment;
  Tensor second_moment;
  Tensor master;
  int updates_before = 0;  ///< updates of the weight before this run
};
/// The state for the i-th of several parts of a weight (see `part_begin`): zero moments, or the
/// checkpoint's. `start` is the whole weight's value in process memory, used only if there is a
/// master weight.
OptimizerState make_optimizer_state(const Training& training, Backend& backend,
                                    const ParameterSpec& spec, const Tensor& start,
                                    std::size_t i = 0, std::size_t parts = 1);
/// The optimizer step of one weight, or of a part: from `weight` to `updated`, which may be the
/// same tensor.
WeightUpdate update_of(const OptimizerState& state, const Tensor& gradient, const Tensor& weight,
                       const Tensor& updated);
/// Weights by the number of their optimizer step, from 1. Stages may update at different rates, and
/// a checkpoint's weights may have different numbers.
using WeightUpdates = std::map<int, std::vector<WeightUpdate>>;
/// Executes these optimizer steps, by the gradients times `factor`.
void take_step(const Training& training, Backend& backend, double factor, WeightUpdates& updates);

/// A copy of a backend's tensor in process memory, in the precision of sums.
Tensor downloaded(Backend& backend, const Tensor& tensor);
/// Sets the result's names, weights in ascending order of names, and their hash.
void set_parameters(RunResult& result, std::map<std::string, Tensor> parameters);

}  // namespace stagecraft
