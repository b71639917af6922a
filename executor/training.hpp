// What all ranks of a run share and none changes.

#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/execute.hpp"
#include "executor/layer.hpp"

namespace stagecraft {

struct Training {
  const Plan& plan;
  const Dataset& dataset;
  const RunOptions& options;
  Model model;  ///< at the plan's sequence length
  std::vector<std::unique_ptr<TrainableLayer>> layers;

  /// Tokens of a sample; an image counts as one.
  std::int64_t sequence() const { return std::max<std::int64_t>(model.sequence, 1); }
  std::span<const std::unique_ptr<TrainableLayer>> layers_of(int stage) const;
  /// Elements per sample of what the stage hands to the next one.
  std::vector<std::int64_t> boundary_shape(int stage, std::int64_t rows) const;
  std::int64_t tokens_per_step() const { return plan.batch.global * sequence(); }
  double loss_scale() const { return 1.0 / static_cast<double>(tokens_per_step()); }
};

/// Throws Error (input) if the executor cannot train this plan or the data do not suffice.
Training make_training(const Plan& plan, const Profile& profile, const Dataset& dataset,
                       const RunOptions& options);

/// The tokens of rows [first, end) of one microbatch in one step.
TokenBlock block_of(const Training& training, int step, int microbatch, IndexRange rows);
Samples samples_of(const Training& training, const TokenBlock& block);

/// Gives a weight its start value: the run's own for its name, or one drawn from the seed. Throws
/// Error (input) if the run has weights, but not this one in this shape.
void set_start_value(Parameter& parameter, const RunOptions& options);

/// The state an optimizer keeps beside one weight; empty tensors for SGD.
struct OptimizerState {
  Tensor first_moment;
  Tensor second_moment;
};
OptimizerState make_optimizer_state(const Training& training, Backend& backend,
                                    const ParameterSpec& spec);
/// The optimizer's step number `step`, from 1.
void take_step(const Training& training, Backend& backend, int step, const Tensor& gradient,
               OptimizerState& state, Tensor& weight);

/// Fills in names, weights in ascending order of names, and their hash.
void set_parameters(RunResult& result, const std::map<std::string, Tensor>& parameters);

}  // namespace stagecraft
