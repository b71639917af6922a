// What all ranks of a run share and none changes.

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

/// Stages and microbatches are the schedule's: those of its first pipe are the plan's stages, and
/// the copies in other pipes hold the same layers.
struct Training {
  const Plan& plan;
  const Dataset& dataset;
  const RunOptions& options;
  Schedule schedule;
  Model model;  ///< at the plan's sequence length
  std::vector<std::unique_ptr<TrainableLayer>> layers;
  int processors = 1;  ///< of this machine, that each rank may draw its weights with

  /// Of weights as layers see them, of what flows between layers, and of messages.
  Precision precision() const { return plan.precision; }
  /// Of gradients, and of what the optimizer keeps.
  Precision sums() const { return precision_of_sums(plan.precision); }
  /// Tokens of a sample; an image counts as one.
  std::int64_t sequence() const { return std::max<std::int64_t>(model.sequence, 1); }
  LayerRange range_of(int stage) const {
    return plan.stages[static_cast<std::size_t>(stage) % plan.stages.size()].layers;
  }
  /// What the layers of a stage do again by themselves; empty: nothing.
  std::span<const Recomputed> again_of(int stage) const {
    return plan.stages[static_cast<std::size_t>(stage) % plan.stages.size()].again;
  }
  /// Whole ones.
  std::span<const std::unique_ptr<TrainableLayer>> layers_of(int stage) const;
  /// Of what the stage hands to the next one.
  std::vector<std::int64_t> boundary_shape(int stage, std::int64_t rows) const;
  /// What the schedule calls a microbatch is one of so many pieces of its sequences.
  int pieces() const { return schedule.sequence_chunks; }
  /// Of a sample, in one piece.
  std::int64_t tokens_per_piece() const { return sequence() / pieces(); }
  /// Samples of one of the schedule's microbatches.
  std::int64_t rows() const { return plan.batch.microbatch * pieces() / schedule.parts; }
  std::int64_t tokens_per_step() const { return plan.batch.global * sequence(); }
  /// Where this run begins.
  TrainingPosition start() const {
    return options.resume ? options.resume->position : TrainingPosition{};
  }
  /// Gradients are those of the mean loss of what one update is about.
  double loss_scale() const;
};

/// Whether nothing comes before the stage, or behind it, in its pipe.
inline bool is_first(const Schedule& schedule, int stage) {
  return stage % stages_per_pipe(schedule) == 0;
}
inline bool is_last(const Schedule& schedule, int stage) {
  return is_first(schedule, stage + 1);
}

/// The layers of a stage, or the parts of them that this one of several peers holds.
std::vector<std::unique_ptr<TrainableLayer>> make_layers(const Training& training, int stage,
                                                         TensorPeers* peers);

/// Throws Error (input) if the executor cannot train this plan or the data do not suffice.
Training make_training(const Plan& plan, const Profile& profile, const Dataset& dataset,
                       const RunOptions& options);

/// The tokens of rows [first, end) of one microbatch, or piece, in one step of this run, as the
/// stage's pipe counts them: each pipe has its own part of the batch, in the order of the pipes.
TokenBlock block_of(const Training& training, int step, int stage, int microbatch, IndexRange rows);
Samples samples_of(const Training& training, const TokenBlock& block);

/// A weight's start value, in memory of the process and in the precision of sums: that of the
/// checkpoint, the run's own for its name, or one drawn from the seed. Throws Error (input) if the
/// run has weights, but not this one in this shape, or the checkpoint's are damaged.
Tensor start_value(const Training& training, const ParameterSpec& spec);
/// Sets a tensor of the backend to numbers that lie in the process's memory, rounded to its
/// precision.
void set_value(Backend& backend, const Tensor& numbers, Tensor& tensor);

/// The state an optimizer keeps beside one weight: the moments, empty for SGD, and the weight
/// itself where what layers compute with is its rounding to 16 bits (Micikevicius et al., "Mixed
/// precision training", 2018), else empty.
struct OptimizerState {
  Tensor first_moment;
  Tensor second_moment;
  Tensor master;
  int updates_before = 0;  ///< of the weight, when this run began
};
/// For the i-th of so many parts of a weight (see `part_begin`): moments of zero, or the
/// checkpoint's. `start`: the whole weight's value in the process's memory, looked at only if there
/// is a master.
OptimizerState make_optimizer_state(const Training& training, Backend& backend,
                                    const ParameterSpec& spec, const Tensor& start,
                                    std::size_t i = 0, std::size_t parts = 1);
/// What a step does to one weight, or to a part: from `weight` to `updated`, which may be the same.
WeightUpdate update_of(const OptimizerState& state, const Tensor& gradient, const Tensor& weight,
                       const Tensor& updated);
/// Weights by the number of the step that the optimizer takes with them, from 1. Stages may update
/// at different rates, and a checkpoint's weights may come from several of them.
using WeightUpdates = std::map<int, std::vector<WeightUpdate>>;
/// These steps of all these weights, by their gradients times `factor`.
void take_step(const Training& training, Backend& backend, double factor, WeightUpdates& updates);

/// A tensor of the backend in memory of the process, in the precision of sums.
Tensor downloaded(Backend& backend, const Tensor& tensor);
/// Fills in names, weights in ascending order of names, and their hash.
void set_parameters(RunResult& result, std::map<std::string, Tensor> parameters);

}  // namespace stagecraft
