#include "executor/training/training.hpp"

#include <cstring>
#include <set>
#include <utility>

#include "executor/driver/host.hpp"
#include "executor/layers/layers.hpp"
#include "executor/weights/weight_shard.hpp"
#include "profiles/content_hash.hpp"
#include "profiles/error.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// Which numbers each backend computes with.
void require_precision(Precision precision, BackendKind backend) {
  const bool on_cpu = backend != BackendKind::cuda;
  if (precision == Precision::float32) return;
  if (is_float8(precision)) {
    fail_with_help(ErrorKind::input,
                   "the executor does not carry out products in fp8; they can be planned only",
                   {on_cpu ? "plan with --precision fp32" : "plan with --precision bf16"});
  }
  if (precision == (on_cpu ? Precision::float64 : Precision::bfloat16)) return;
  const std::string_view device =
      on_cpu ? "the CPU trains in fp32 and fp64, not in " : "CUDA trains in bf16 and fp32, not in ";
  fail(device, to_string(precision), "; plan with --precision fp32",
       on_cpu ? ", or run with --backend cuda" : "");
}

/// Devices here share layers by tensor parallelism alone, and keep whole weights and gradients.
void require_plain_layers(const Plan& plan) {
  const Parallelism& parallelism = plan.parallelism;
  const auto refuse = [](std::string_view what, std::string_view remedy) {
    fail_with_help(ErrorKind::input,
                   concat("the executor does not carry out ", what, "; it can be planned only"),
                   {std::string(remedy)});
  };
  if (parallelism.context > 1) refuse("context parallelism", "plan without --context-parallel");
  if (parallelism.expert > 1 || parallelism.expert_tensor > 0) {
    refuse("expert parallelism", "plan without --expert-parallel");
  }
  if (parallelism.sequence && tensor_degree(plan) > 1) {
    refuse("sequence parallelism", "plan with --sequence-parallel off");
  }
  if (shards_gradients(plan.optimizer.sharding)) {
    refuse(concat("sharding \"", to_string(plan.optimizer.sharding), "\""),
           "plan with --sharding zero1");
  }
  if (plan.optimizer.gradient_bucket > 0) {
    refuse("sums of gradients beside the last backward", "plan without --gradient-bucket");
  }
}

/// Each is a rank, on this machine or another.
int devices_of(const Plan& plan) {
  std::set<int> devices;
  for (const Stage& stage : plan.stages) {
    for (const std::vector<int>& peers : stage.devices) devices.insert(peers.begin(), peers.end());
  }
  return static_cast<int>(devices.size());
}

Model model_of(const Plan& plan, const Profile& profile) {
  const std::int64_t sequence = plan.batch.sequence;
  if (sequence == 0 || sequence == profile.model.sequence) return profile.model;
  return with_sequence(profile.model, sequence);
}

}  // namespace

std::span<const std::unique_ptr<TrainableLayer>> Training::layers_of(int stage) const {
  const LayerRange range = range_of(stage);
  return std::span(layers).subspan(static_cast<std::size_t>(range.first),
                                   static_cast<std::size_t>(range.size()));
}

std::vector<std::int64_t> Training::boundary_shape(int stage, std::int64_t rows) const {
  const auto last = static_cast<std::size_t>(range_of(stage).end - 1);
  return {rows, tokens_per_piece(), model.layers[last].output_elements / sequence()};
}

double Training::loss_scale() const {
  if (schedule.weights == WeightPolicy::flush) return 1.0 / static_cast<double>(tokens_per_step());
  return 1.0 / static_cast<double>(schedule.update_every * rows() * sequence());
}

Training make_training(const Plan& plan, const Profile& profile, const Dataset& dataset,
                       const RunOptions& options) {
  if (options.backend != BackendKind::sleep) require_plain_layers(plan);
  require_precision(plan.precision, options.backend);
  Training training{.plan = plan,
                    .dataset = dataset,
                    .options = options,
                    .schedule = find_schedule(plan.schedule.name).generate(shape_of(plan)),
                    .model = model_of(plan, profile),
                    .layers = {},
                    .processors = processors_per_rank(devices_of(plan))};
  for (std::size_t i = 0; i < training.model.layers.size(); ++i) {
    training.layers.push_back(make_layer(training.model, static_cast<int>(i)));
    training.layers.back()->limit_logits(options.loss_rows);
  }
  require_samples(dataset, training.model);
  return training;
}

std::vector<std::unique_ptr<TrainableLayer>> make_layers(const Training& training, int stage,
                                                         TensorPeers* peers) {
  std::vector<std::unique_ptr<TrainableLayer>> layers;
  const LayerRange range = training.range_of(stage);
  for (int i = range.first; i < range.end; ++i) {
    layers.push_back(make_layer(training.model, i, peers));
    layers.back()->limit_logits(training.options.loss_rows);
  }
  return layers;
}

TokenBlock block_of(const Training& training, int step, int stage, int microbatch,
                    IndexRange rows) {
  const Schedule& schedule = training.schedule;
  const std::int64_t pipe = stage / stages_per_pipe(schedule);
  const int pieces = training.pieces();
  const std::int64_t block = pipe * schedule.microbatches / pieces + microbatch / pieces;
  const std::int64_t first = training.start().samples + step * training.plan.batch.global +
                             block * training.rows() + rows.first;
  const std::int64_t sequence = training.sequence();
  return piece_of(
      token_block(training.dataset, sequence, training.options.seed, first, rows.size()), sequence,
      microbatch % pieces, pieces);
}

Samples samples_of(const Training& training, const TokenBlock& block) {
  const std::int64_t sequence = training.tokens_per_piece();
  return {.count = static_cast<std::int64_t>(block.targets.size()) / sequence,
          .sequence = sequence,
          .past = block.past,
          .tokens = block.tokens,
          .targets = block.targets,
          .loss_scale = training.loss_scale()};
}

Tensor start_value(const Training& training, const ParameterSpec& spec) {
  const RunOptions& options = training.options;
  if (options.resume) {
    return reshaped(read_state(*options.resume, spec.name, StateKind::weight,
                               {spec.shard, 0, elements_of(spec.shape)}),
                    spec.shape);
  }
  if (options.weights.empty()) {
    Parameter drawn{
        .spec = spec, .weight = host_tensor(spec.shape, training.sums()), .gradient = {}};
    initialize(drawn, options.seed, training.processors);
    return drawn.weight;
  }
  const auto found = options.weights.find(spec.name);
  if (found == options.weights.end() || found->second.shape != whole_shape(spec) ||
      found->second.precision != training.sums()) {
    fail("the start values have no ", spec.name, " of the plan's shape and precision");
  }
  if (!spec.shard) return found->second;
  Tensor part = host_tensor(spec.shape, training.sums());
  copy_part(spec, found->second, part);
  return part;
}

void set_value(Backend& backend, const Tensor& numbers, Tensor& tensor) {
  if (tensor.precision == numbers.precision) return backend.upload(bytes_of(numbers), tensor);
  Tensor uploaded = backend.allocate(numbers.shape, numbers.precision);
  backend.upload(bytes_of(numbers), uploaded);
  backend.convert(uploaded, tensor);
}

OptimizerState make_optimizer_state(const Training& training, Backend& backend,
                                    const ParameterSpec& spec, const Tensor& start, std::size_t i,
                                    std::size_t parts) {
  const std::int64_t elements = elements_of(spec.shape);
  const WeightSlice part{spec.shard, part_begin(elements, i, parts),
                         part_begin(elements, i + 1, parts)};
  OptimizerState state;
  if (training.options.resume && backend.has_numbers()) {
    state.updates_before = updates_of(*training.options.resume, spec.name);
  }
  if (training.sums() != training.precision()) {
    state.master = backend.allocate({part.elements()}, training.sums());
    set_value(backend, shard_of(start, i, parts), state.master);
  }
  if (training.plan.optimizer.kind == OptimizerKind::sgd) return state;
  const auto moment = [&](StateKind kind) {
    Tensor tensor = backend.allocate({part.elements()}, training.sums());
    const Checkpoint* checkpoint = training.options.resume.get();
    if (!backend.has_numbers()) return tensor;
    checkpoint ? set_value(backend, read_state(*checkpoint, spec.name, kind, part), tensor)
               : backend.zero(tensor);
    return tensor;
  };
  state.first_moment = moment(StateKind::first_moment);
  state.second_moment = moment(StateKind::second_moment);
  return state;
}

WeightUpdate update_of(const OptimizerState& state, const Tensor& gradient, const Tensor& weight,
                       const Tensor& updated) {
  const bool has_master = !state.master.empty();
  return {.gradient = gradient,
          .first_moment = state.first_moment,
          .second_moment = state.second_moment,
          .weight = has_master ? state.master : weight,
          .updated = has_master ? state.master : updated,
          .rounded = has_master ? updated : Tensor{}};
}

void take_step(const Training& training, Backend& backend, double factor, WeightUpdates& updates) {
  const RunOptions& options = training.options;
  for (auto& [step, of_step] : updates) {
    switch (training.plan.optimizer.kind) {
      case OptimizerKind::adamw: backend.adamw_step(options.adamw, step, factor, of_step); break;
      case OptimizerKind::sgd: backend.sgd_step(options.sgd, factor, of_step); break;
    }
  }
}

Tensor downloaded(Backend& backend, const Tensor& tensor) {
  Tensor copy = host_tensor(tensor.shape, precision_of_sums(tensor.precision));
  if (copy.precision == tensor.precision) {
    backend.download(tensor, bytes_of(copy));
    return copy;
  }
  Tensor wide = backend.allocate(tensor.shape, copy.precision);
  backend.convert(tensor, wide);
  backend.download(wide, bytes_of(copy));
  return copy;
}

void set_parameters(RunResult& result, std::map<std::string, Tensor> parameters) {
  std::vector<std::string_view> content;
  for (const auto& [name, tensor] : parameters) {
    content.insert(
        content.end(),
        {name, {"\0", 1}, {tensor.data<char>(), static_cast<std::size_t>(tensor.bytes())}});
  }
  result.parameters_hash = content_hash(content);
  for (auto& parameter : parameters) {
    result.parameter_names.push_back(parameter.first);
    result.parameters.push_back(std::move(parameter.second));
  }
}

}  // namespace stagecraft
