// Training without programs: one thread goes through microbatches and stages in the plainest order
// there is.
//
//   for each microbatch: stages up, then stages down, replica by replica; then sums and the
//   optimizer
//
// It makes the same calls on the same rows as the ranks do, and adds in the order the plan lays
// down. So a run that got its order, its transfers or its sums wrong ends with other bits.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "executor/execute.hpp"
#include "executor/training.hpp"
#include "executor/transport.hpp"

namespace stagecraft {

namespace {

/// One layer on one replica: weights shared by all copies, gradients of its own, and what one
/// microbatch leaves there.
struct LayerCopy {
  std::vector<Parameter> parameters;
  Tensor input;
  Saved saved;
};

/// A distinct weight with its optimizer state.
struct Weight {
  Tensor tensor;
  OptimizerState state;
};

/// The layers of one replica of a stage.
using Replica = std::vector<LayerCopy>;

/// A replica's part in one microbatch.
struct Share {
  int replica = 0;
  IndexRange rows;
  TokenBlock block;
};

class Reference {
 public:
  explicit Reference(const Training& training)
      : training_(training), backend_(make_cpu_backend()), stages_(training.plan.stages.size()) {
    for (int stage = 0; stage < stage_count(); ++stage) {
      for (int replica = 0; replica < replica_count(stage); ++replica) {
        replicas_of(stage).push_back(make_replica(stage));
      }
    }
  }

  RunResult run() {
    RunResult result;
    for (int step = 0; step < training_.options.steps; ++step) {
      const Moment start = now();
      result.losses.push_back(train(step));
      result.step_times.push_back(now() - start);
      const RunOptions& options = training_.options;
      if (options.on_step) {
        options.on_step({step, result.losses.back(), result.step_times.back()});
      }
      if (options.stop.stop_requested()) break;
    }
    result.peak_memory = {backend_->peak_bytes()};
    std::map<std::string, Tensor> parameters;
    for (const auto& [name, weight] : weights_) parameters[name] = weight.tensor;
    set_parameters(result, parameters);
    return result;
  }

 private:
  int stage_count() const { return static_cast<int>(stages_.size()); }
  int replica_count(int stage) const {
    return static_cast<int>(training_.plan.stages[static_cast<std::size_t>(stage)].devices.size());
  }
  std::vector<Replica>& replicas_of(int stage) { return stages_[static_cast<std::size_t>(stage)]; }
  Replica& replica_at(int stage, int replica) {
    return replicas_of(stage)[static_cast<std::size_t>(replica)];
  }

  Tensor zeros(const std::vector<std::int64_t>& shape) {
    Tensor tensor = backend_->allocate(shape, training_.plan.precision);
    backend_->zero(tensor);
    return tensor;
  }

  // --- Weights ---

  Replica make_replica(int stage) {
    Replica replica;
    for (const auto& layer : training_.layers_of(stage)) {
      LayerCopy& copy = replica.emplace_back();
      for (const ParameterSpec& spec : layer->parameters()) {
        copy.parameters.push_back(
            {.spec = spec, .weight = weight_of(spec).tensor, .gradient = zeros(spec.shape)});
      }
    }
    return replica;
  }

  Weight& weight_of(const ParameterSpec& spec) {
    const auto [found, is_new] = weights_.try_emplace(spec.name);
    if (is_new) {
      Parameter parameter{.spec = spec, .weight = zeros(spec.shape), .gradient = {}};
      set_start_value(parameter, training_.options);
      found->second = {.tensor = parameter.weight,
                       .state = make_optimizer_state(training_, *backend_, spec)};
    }
    return found->second;
  }

  // --- One step ---

  double train(int step) {
    double loss = 0;
    for (int m = 0; m < training_.plan.batch.microbatches; ++m) {
      std::vector<std::vector<Share>> shares;
      for (int stage = 0; stage < stage_count(); ++stage) {
        shares.push_back(shares_of(stage, step, m));
      }
      Tensor boundary;
      for (int stage = 0; stage < stage_count(); ++stage) {
        boundary = forward(stage, shares[static_cast<std::size_t>(stage)], boundary, loss);
      }
      Tensor gradient;
      for (int stage = stage_count(); stage-- > 0;) {
        gradient = backward(stage, shares[static_cast<std::size_t>(stage)], gradient);
      }
    }
    update(step + 1);
    return loss / static_cast<double>(training_.tokens_per_step());
  }

  /// Who works on the microbatch, and on which of its rows.
  std::vector<Share> shares_of(int stage, int step, int microbatch) const {
    const int rows = static_cast<int>(training_.plan.batch.microbatch);
    const int replicas = replica_count(stage);
    std::vector<Share> shares;
    if (training_.plan.replicas == ReplicaPolicy::round_robin) {
      shares.push_back({.replica = microbatch % replicas, .rows = {0, rows}, .block = {}});
    } else {
      for (int i = 0; i < replicas; ++i) {
        shares.push_back(
            {.replica = i, .rows = {rows * i / replicas, rows * (i + 1) / replicas}, .block = {}});
      }
    }
    for (Share& share : shares) {
      share.block = block_of(training_, step, microbatch, share.rows);
    }
    return shares;
  }

  static Tensor part(const Tensor& tensor, IndexRange rows) {
    return tensor.empty() ? tensor : rows_of(tensor, rows.first, rows.end);
  }

  /// Joins a replica's rows with those of the others.
  void join(Tensor& whole, const Tensor& rows, IndexRange range) {
    if (rows.empty()) return;
    if (whole.empty()) {
      std::vector<std::int64_t> shape = rows.shape;
      shape.front() = training_.plan.batch.microbatch;
      whole = zeros(shape);
    }
    Tensor place = part(whole, range);
    backend_->copy(rows, place);
  }

  Tensor forward(int stage, const std::vector<Share>& shares, const Tensor& input, double& loss) {
    Tensor output;
    for (const Share& share : shares) {
      const auto layers = training_.layers_of(stage);
      const Samples samples = samples_of(training_, share.block);
      Replica& replica = replica_at(stage, share.replica);
      Tensor x = part(input, share.rows);
      for (std::size_t i = 0; i < layers.size(); ++i) {
        replica[i].input = x;
        x = layers[i]->forward(*backend_, replica[i].parameters, samples, replica[i].input,
                               replica[i].saved);
      }
      join(output, x, share.rows);
      if (stage + 1 == stage_count()) loss += replica.back().saved.loss;
    }
    return output;
  }

  Tensor backward(int stage, const std::vector<Share>& shares, const Tensor& output_gradient) {
    Tensor input_gradient;
    for (const Share& share : shares) {
      const auto layers = training_.layers_of(stage);
      const Samples samples = samples_of(training_, share.block);
      Replica& replica = replica_at(stage, share.replica);
      Tensor gradient = part(output_gradient, share.rows);
      for (std::size_t i = layers.size(); i-- > 0;) {
        gradient = layers[i]->backward_input(*backend_, replica[i].parameters, samples,
                                             replica[i].input, gradient, replica[i].saved);
      }
      for (std::size_t i = layers.size(); i-- > 0;) {
        layers[i]->backward_weight(*backend_, replica[i].parameters, samples, replica[i].input,
                                   replica[i].saved);
        replica[i].saved = {};
      }
      join(input_gradient, gradient, share.rows);
    }
    return input_gradient;
  }

  // --- Sums and the optimizer ---

  void update(int step) {
    std::map<std::string, Tensor> sums = summed_gradients();
    for (auto& [name, weight] : weights_) {
      take_step(training_, *backend_, step, sums.at(name), weight.state, weight.tensor);
    }
    for (std::vector<Replica>& stage : stages_) {
      for (Replica& replica : stage) {
        for (LayerCopy& layer : replica) {
          for (Parameter& parameter : layer.parameters) backend_->zero(parameter.gradient);
        }
      }
    }
  }

  /// Replica by replica, then the copies of tied weights in model order.
  std::map<std::string, Tensor> summed_gradients() {
    std::map<std::string, Tensor> sums;
    for (std::vector<Replica>& stage : stages_) {
      for (std::size_t layer = 0; layer < stage.front().size(); ++layer) {
        for (std::size_t i = 0; i < stage.front()[layer].parameters.size(); ++i) {
          const Tensor sum = sum_over_replicas(stage, layer, i);
          const auto [tied, is_first] =
              sums.try_emplace(stage.front()[layer].parameters[i].spec.name, sum);
          if (!is_first) backend_->add(sum, tied->second);
        }
      }
    }
    return sums;
  }

  Tensor sum_over_replicas(std::vector<Replica>& stage, std::size_t layer, std::size_t parameter) {
    Tensor sum = stage.front()[layer].parameters[parameter].gradient;
    for (std::size_t i = 1; i < stage.size(); ++i) {
      backend_->add(stage[i][layer].parameters[parameter].gradient, sum);
    }
    return sum;
  }

  const Training& training_;
  std::unique_ptr<Backend> backend_;
  std::map<std::string, Weight> weights_;
  std::vector<std::vector<Replica>> stages_;
};

// --- Comparing runs
// -------------------------------------------------------------------------------

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// The first element whose bits differ; the tensors' shapes and precisions are equal.
template <class Number>
std::optional<std::int64_t> first_different_element(const Tensor& a, const Tensor& b) {
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    if (!same_bits(a.data<Number>()[i], b.data<Number>()[i])) return i;
  }
  return {};
}

template <class Number>
std::string different_weight(const std::string& name, const Tensor& run, const Tensor& reference) {
  const auto at = first_different_element<Number>(run, reference);
  if (!at) return {};
  return fmt::format("{}[{}] is {:a}, expected {:a}", name, *at,
                     static_cast<double>(run.data<Number>()[*at]),
                     static_cast<double>(reference.data<Number>()[*at]));
}

std::string different_weight(const std::string& name, const Tensor& run, const Tensor& reference) {
  if (run.shape != reference.shape || run.precision != reference.precision) {
    return name + " has another shape or precision than expected";
  }
  return run.precision == Precision::float64 ? different_weight<double>(name, run, reference)
                                             : different_weight<float>(name, run, reference);
}

std::string different_loss(const RunResult& run, const RunResult& reference) {
  for (std::size_t i = 0; i < std::min(run.losses.size(), reference.losses.size()); ++i) {
    if (same_bits(run.losses[i], reference.losses[i])) continue;
    return fmt::format("the loss of step {} is {:a}, expected {:a}", i, run.losses[i],
                       reference.losses[i]);
  }
  if (run.losses.size() == reference.losses.size()) return {};
  return fmt::format("the run has {} steps, expected {}", run.losses.size(),
                     reference.losses.size());
}

}  // namespace

RunResult run_reference(const Plan& plan, const Profile& profile, const Dataset& dataset,
                        const RunOptions& options) {
  const Training training = make_training(plan, profile, dataset, options);
  return Reference(training).run();
}

std::string first_difference(const RunResult& run, const RunResult& reference) {
  if (std::string loss = different_loss(run, reference); !loss.empty()) return loss;
  if (run.parameter_names != reference.parameter_names) {
    return "the run has other parameters than expected";
  }
  for (std::size_t i = 0; i < run.parameters.size(); ++i) {
    std::string weight =
        different_weight(run.parameter_names[i], run.parameters[i], reference.parameters[i]);
    if (!weight.empty()) return weight;
  }
  return {};
}

}  // namespace stagecraft
