// Training without programs: one thread goes through microbatches and stages in the plainest order
// there is.
//
//   for each microbatch: stages up, then stages down, replica by replica; sums and the optimizer
//   behind the last one of an update
//
// Of sequences in pieces: the pieces in order up, then in reverse down, so gradients are summed
// from the last piece to the first, microbatch by microbatch.
//
// It makes the same calls on the same rows as the ranks do, and adds in the order the plan lays
// down. So a run that got its order, its transfers or its sums wrong ends with other bits.
//
// Where weights are updated on the way it keeps every version that anything will ever read, and
// takes the one that the policy's formula names, for microbatch k (from 0) on stage s of p, with
// updates each n microbatches:
//
//   stashing          max(0, k - (p - s) + 1)     PipeDream (Narayanan et al., SOSP 2019)
//   vertical sync     max(0, k - p + 1)           there, section 3.3
//   double-buffered   max(0, floor(k / n) - 1)    PipeDream-2BW (Narayanan et al., ICML 2021)
//
// Of r replicas that take turns under stashing a stage updates behind each r microbatches, by the
// mean of their gradients. With K in flight, one for each device from this stage on, microbatch k
// meets max(0, floor(k / r) - ceil(K / r) + 1): PipeDream's 1F1B-RR, section 3.2.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "executor/driver/execute.hpp"
#include "executor/driver/host.hpp"
#include "executor/driver/machinery.hpp"
#include "executor/training/clipping.hpp"
#include "executor/training/training.hpp"
#include "executor/transports/transport.hpp"

namespace stagecraft {

namespace {

/// One layer on one replica: weights shared by all copies, gradients of its own, and what each
/// piece of one microbatch leaves there.
struct LayerCopy {
  std::vector<Parameter> parameters;
  std::vector<Tensor> inputs;
  std::vector<Saved> saved;
  SequencePieces pieces;
};

/// A distinct weight with its optimizer state.
struct Weight {
  std::vector<Tensor>
      versions;  ///< since the step began; with a flush just the one that is updated
  OptimizerState state;
  int updates = 0;  ///< since this run began
};

/// The layers of one replica of a stage.
using Replica = std::vector<LayerCopy>;

/// A replica's part in one piece of a microbatch.
struct Share {
  int replica = 0;
  IndexRange rows;
  TokenBlock block;
};
using Shares = std::vector<Share>;

class Reference {
 public:
  Reference(const Training& training, std::unique_ptr<Backend> backend)
      : training_(training),
        schedule_(training.schedule),
        backend_(std::move(backend)),
        stages_(static_cast<std::size_t>(training.schedule.stages)) {
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
        options.on_step(
            {training_.start().steps + step, result.losses.back(), result.step_times.back()});
      }
      if (options.stop.stop_requested()) break;
    }
    result.peak_memory = {backend_->peak_bytes()};
    std::map<std::string, Tensor> parameters;
    for (const auto& [name, weight] : weights_) {
      parameters[name] = downloaded(*backend_, weight.versions.back());
    }
    set_parameters(result, std::move(parameters));
    return result;
  }

 private:
  int stage_count() const { return static_cast<int>(stages_.size()); }
  int replica_count(int stage) const {
    const int home = schedule_.device_of_stage[static_cast<std::size_t>(stage)];
    return static_cast<int>(training_.plan.stages[static_cast<std::size_t>(home)].devices.size());
  }
  std::vector<Replica>& replicas_of(int stage) { return stages_[static_cast<std::size_t>(stage)]; }
  Replica& replica_at(int stage, int replica) {
    return replicas_of(stage)[static_cast<std::size_t>(replica)];
  }

  Tensor zeros(const std::vector<std::int64_t>& shape, Precision precision) {
    Tensor tensor = backend_->allocate(shape, precision);
    backend_->zero(tensor);
    return tensor;
  }

  // --- Weights ---

  Replica make_replica(int stage) {
    Replica replica;
    for (const auto& layer : training_.layers_of(stage)) {
      LayerCopy& copy = replica.emplace_back();
      const auto pieces = static_cast<std::size_t>(training_.pieces());
      copy.inputs.resize(pieces);
      copy.saved.resize(pieces);
      copy.pieces = {std::vector<Tensor>(pieces), std::vector<Tensor>(pieces)};
      for (const ParameterSpec& spec : layer->parameters()) {
        copy.parameters.push_back({.spec = spec,
                                   .weight = weight_of(spec).versions[0],
                                   .gradient = zeros(spec.shape, training_.sums())});
      }
    }
    return replica;
  }

  Weight& weight_of(const ParameterSpec& spec) {
    const auto [found, is_new] = weights_.try_emplace(spec.name);
    if (is_new) {
      const Tensor start = start_value(training_, spec);
      Tensor weight = backend_->allocate(spec.shape, training_.precision());
      set_value(*backend_, start, weight);
      found->second = {.versions = {weight},
                       .state = make_optimizer_state(training_, *backend_, spec, start)};
    }
    return found->second;
  }

  bool flushes() const { return schedule_.weights == WeightPolicy::flush; }

  /// The version that a microbatch meets, counted from the one the step begins with.
  int version_of(int stage, int microbatch) const {
    const int stages = stage_count();
    switch (schedule_.weights) {
      case WeightPolicy::flush: return 0;
      case WeightPolicy::stashing: {
        const int round = round_of(stage);
        const int rounds_ahead = (in_flight(stage) + round - 1) / round;
        return std::max(0, microbatch / round - rounds_ahead + 1);
      }
      case WeightPolicy::vertical_sync: return std::max(0, microbatch - stages + 1);
      case WeightPolicy::double_buffered:
        return std::max(0, microbatch / schedule_.update_every - 1);
    }
    return 0;
  }

  bool takes_turns() const { return training_.plan.replicas == ReplicaPolicy::round_robin; }

  /// Microbatches that the stage's replicas share in turn, one each, before they update.
  int round_of(int stage) const {
    const bool in_rounds = schedule_.weights == WeightPolicy::stashing && takes_turns();
    return in_rounds ? replica_count(stage) : 1;
  }

  /// Microbatches that go forward through the stage before the first comes back.
  int in_flight(int stage) const {
    const std::vector<int>& warm_up = training_.plan.schedule.warm_up;
    if (!warm_up.empty()) return warm_up[static_cast<std::size_t>(stage)];
    if (!takes_turns()) return stage_count() - stage;
    int devices = 0;
    for (int later = stage; later < stage_count(); ++later) devices += replica_count(later);
    return devices;
  }

  /// Whether the stage updates behind the microbatch, the last of so many.
  bool is_due(int stage, int microbatch, int microbatches) const {
    if (flushes()) return microbatch + 1 == microbatches;
    return (microbatch + 1) % (schedule_.update_every * round_of(stage)) == 0;
  }

  void use_version(int stage, int version) {
    for (Replica& replica : replicas_of(stage)) {
      for (LayerCopy& layer : replica) {
        for (Parameter& parameter : layer.parameters) {
          parameter.weight =
              weights_.at(parameter.spec.name).versions[static_cast<std::size_t>(version)];
        }
      }
    }
  }

  // --- One step ---

  double train(int step) {
    double loss = 0;
    for (auto& [name, weight] : weights_) weight.versions = {weight.versions.back()};
    const int microbatches = schedule_.microbatches / training_.pieces();
    for (int m = 0; m < microbatches; ++m) {
      for (int stage = 0; stage < stage_count(); ++stage) use_version(stage, version_of(stage, m));
      for (int pipe = 0; pipe < schedule_.pipes; ++pipe) pass(step, pipe, m, loss);
      if (!schedule_.trains) continue;
      update_due(m, microbatches);
    }
    return loss / static_cast<double>(training_.tokens_per_step());
  }

  /// Up and down the stages of one pipe, all pieces up before the last comes down; adds the tokens'
  /// losses.
  void pass(int step, int pipe, int microbatch, double& loss) {
    const int first = pipe * stages_per_pipe(schedule_);
    const int pieces = training_.pieces();
    std::vector<std::vector<Shares>> shares;  // by piece and stage
    for (int piece = 0; piece < pieces; ++piece) {
      auto& of_stages = shares.emplace_back();
      for (int stage = first; stage < first + stages_per_pipe(schedule_); ++stage) {
        of_stages.push_back(shares_of(stage, step, microbatch * pieces + piece));
      }
      up(first, piece, of_stages, loss);
    }
    if (!schedule_.trains) return;
    for (int piece = pieces; piece-- > 0;) {
      down(first, piece, shares[static_cast<std::size_t>(piece)]);
    }
  }

  void up(int first, int piece, const std::vector<Shares>& shares, double& loss) {
    Tensor boundary;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      boundary = forward(first + static_cast<int>(i), piece, shares[i], boundary, loss);
    }
  }

  void down(int first, int piece, const std::vector<Shares>& shares) {
    Tensor gradient;
    for (std::size_t i = shares.size(); i-- > 0;) {
      gradient = backward(first + static_cast<int>(i), piece, shares[i], gradient);
    }
  }

  /// Who works on the microbatch, or piece, and on which of its rows.
  Shares shares_of(int stage, int step, int microbatch) const {
    const int rows = static_cast<int>(training_.rows());
    const int replicas = replica_count(stage);
    Shares shares;
    if (takes_turns()) {
      shares.push_back(
          {.replica = microbatch / training_.pieces() % replicas, .rows = {0, rows}, .block = {}});
    } else {
      for (int i = 0; i < replicas; ++i) {
        shares.push_back(
            {.replica = i, .rows = {rows * i / replicas, rows * (i + 1) / replicas}, .block = {}});
      }
    }
    for (Share& share : shares) {
      share.block = block_of(training_, step, stage, microbatch, share.rows);
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
      shape.front() = training_.rows();
      whole = zeros(shape, training_.precision());
    }
    Tensor place = part(whole, range);
    backend_->copy(rows, place);
  }

  Tensor forward(int stage, int which, const Shares& shares, const Tensor& input, double& loss) {
    const auto piece = static_cast<std::size_t>(which);
    Tensor output;
    for (const Share& share : shares) {
      const auto layers = training_.layers_of(stage);
      const Samples samples = samples_of(training_, share.block);
      Replica& replica = replica_at(stage, share.replica);
      Tensor x = part(input, share.rows);
      for (std::size_t i = 0; i < layers.size(); ++i) {
        LayerCopy& copy = replica[i];
        copy.inputs[piece] = x;
        if (training_.pieces() > 1) copy.saved[piece].pieces = &copy.pieces;
        x = layers[i]->forward(*backend_, copy.parameters, samples, copy.inputs[piece],
                               copy.saved[piece]);
      }
      join(output, x, share.rows);
      if (is_last(schedule_, stage)) loss += replica.back().saved[piece].loss;
    }
    return output;
  }

  Tensor backward(int stage, int which, const Shares& shares, const Tensor& output_gradient) {
    const auto piece = static_cast<std::size_t>(which);
    Tensor input_gradient;
    for (const Share& share : shares) {
      const auto layers = training_.layers_of(stage);
      const Samples samples = samples_of(training_, share.block);
      Replica& replica = replica_at(stage, share.replica);
      Tensor gradient = part(output_gradient, share.rows);
      for (std::size_t i = layers.size(); i-- > 0;) {
        LayerCopy& copy = replica[i];
        gradient = layers[i]->backward_input(*backend_, copy.parameters, samples,
                                             copy.inputs[piece], gradient, copy.saved[piece]);
      }
      for (std::size_t i = layers.size(); i-- > 0;) {
        LayerCopy& copy = replica[i];
        layers[i]->backward_weight(*backend_, copy.parameters, samples, copy.inputs[piece],
                                   copy.saved[piece]);
        copy.saved[piece] = {};
      }
      join(input_gradient, gradient, share.rows);
    }
    return input_gradient;
  }

  // --- Sums and the optimizer ---

  /// With a flush all stages together; else each on its own.
  void update_due(int microbatch, int microbatches) {
    std::vector<int> due;
    for (int stage = 0; stage < stage_count(); ++stage) {
      if (!is_due(stage, microbatch, microbatches)) continue;
      due.push_back(stage);
      if (flushes()) continue;
      update(due, 1.0 / round_of(stage));
      due.clear();
    }
    if (!due.empty()) update(due, 1);
  }

  /// By the stages' gradients times `part`.
  void update(const std::vector<int>& stages, double part) {
    std::map<std::string, Tensor> sums = summed_gradients(stages);
    WeightUpdates updates;
    for (const auto& [name, sum] : sums) {
      Weight& weight = weights_.at(name);
      const Tensor newest = weight.versions.back();
      if (!flushes()) {
        weight.versions.push_back(zeros(newest.shape, training_.precision()));
      }
      updates[weight.state.updates_before + ++weight.updates].push_back(
          update_of(weight.state, sum, newest, weight.versions.back()));
    }
    take_step(training_, *backend_, part * clip_factor_of(sums), updates);
    for (const int stage : stages) {
      for (Replica& replica : replicas_of(stage)) {
        for (LayerCopy& layer : replica) {
          for (Parameter& parameter : layer.parameters) backend_->zero(parameter.gradient);
        }
      }
    }
  }

  /// By name; of a sharded optimizer shard by shard of each, as many as its first stage has.
  double clip_factor_of(const std::map<std::string, Tensor>& sums) {
    if (training_.options.clip_norm == 0) return 1;
    std::vector<Tensor> parts;
    for (const auto& [name, sum] : sums) {
      const std::size_t shards = shards_.at(name);
      for (std::size_t i = 0; i < shards; ++i) parts.push_back(shard_of(sum, i, shards));
    }
    return clip_factor(training_.options.clip_norm, backend_->sums_of_squares(parts));
  }

  /// Replica by replica and pipe by pipe, then the copies of tied weights in model order.
  std::map<std::string, Tensor> summed_gradients(const std::vector<int>& of) {
    std::map<std::string, Tensor> sums;
    const int stages = stages_per_pipe(schedule_);
    for (const int stage : of) {
      if (stage >= stages) break;  // a copy's gradients go into its first one's
      std::vector<Replica*> holders;
      for (int copy = stage; copy < stage_count(); copy += stages) {
        for (Replica& replica : replicas_of(copy)) holders.push_back(&replica);
      }
      add_sums(holders, sums);
    }
    return sums;
  }

  void add_sums(const std::vector<Replica*>& holders, std::map<std::string, Tensor>& sums) {
    for (std::size_t layer = 0; layer < holders.front()->size(); ++layer) {
      for (std::size_t i = 0; i < (*holders.front())[layer].parameters.size(); ++i) {
        const Parameter& first = (*holders.front())[layer].parameters[i];
        Tensor sum = first.gradient;
        for (std::size_t h = 1; h < holders.size(); ++h) {
          backend_->add((*holders[h])[layer].parameters[i].gradient, sum);
        }
        const bool is_sharded = training_.plan.optimizer.sharding == Sharding::zero1;
        shards_.try_emplace(first.spec.name, is_sharded ? holders.size() : 1);
        const auto [tied, is_first] = sums.try_emplace(first.spec.name, sum);
        if (!is_first) backend_->add(sum, tied->second);
      }
    }
  }

  const Training& training_;
  const Schedule& schedule_;
  std::unique_ptr<Backend> backend_;
  std::map<std::string, Weight> weights_;
  std::map<std::string, std::size_t> shards_;  ///< of each weight's optimizer
  std::vector<std::vector<Replica>> stages_;
};

}  // namespace

RunResult run_reference(const Plan& plan, const Profile& profile, const Dataset& dataset,
                        const RunOptions& options, const Machinery& machinery) {
  Training training = make_training(plan, profile, dataset, options);
  training.processors = processors_per_rank(1);
  if (options.resume) require_resumable(*options.resume, training);
  return Reference(training, machinery.make_backend(0)).run();
}

RunResult run_reference(const Plan& plan, const Profile& profile, const Dataset& dataset,
                        const RunOptions& options) {
  return run_reference(plan, profile, dataset, options, machinery_of(options));
}

}  // namespace stagecraft
