#include "executor/training/trained_chunk.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "executor/weights/weight_shard.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

bool recomputes(const Program& program, int chunk) {
  return std::ranges::any_of(program.work, [&](const Work& work) {
    return work.chunk == chunk && work.instruction.op == Op::recompute;
  });
}

/// Losses are means over the microbatches of the schedule's updates; the stage's may have several
/// times as many.
double part_of_update(const Training& training, const Program& program, int stage) {
  if (program.weights == WeightPolicy::flush) return 1;
  return static_cast<double>(training.schedule.update_every) / program.update_every[index(stage)];
}

/// Alone, unless the optimizer is sharded.
Shard shard_in(const Program& program, int chunk) {
  for (const Group& group : program.groups) {
    if (group.op != Op::reduce_scatter) continue;
    const auto found = std::ranges::find(group.chunks, chunk);
    if (found == group.chunks.end()) continue;
    return {.place = static_cast<std::size_t>(found - group.chunks.begin()),
            .members = group.chunks.size()};
  }
  return {};
}

}  // namespace

TrainedChunk::TrainedChunk(const Training& training, const Program& program, int chunk,
                           TensorPeers* peers, Backend& backend)
    : training_(training),
      chunk_(program.chunks[index(chunk)]),
      backend_(backend),
      layers_(make_layers(training, chunk_.stage, peers)),
      trains_(program.trains),
      recomputes_(recomputes(program, chunk)),
      again_(layers_.size(), Recomputed::none),
      shard_(shard_in(program, chunk)),
      parameters_(layers_.size()),
      versions_(slots_of_versions(updates_before_last_reader(program, chunk))),
      part_(part_of_update(training, program, chunk_.stage)),
      passes_(index(program.microbatches)) {
  std::ranges::copy(training.again_of(chunk_.stage), again_.begin());
  const std::vector<Tensor> starts = allocate_layers();
  if (trains_) allocate_training(starts);
  for (MicrobatchPass& pass : passes_) {
    pass.inputs.resize(std::max<std::size_t>(layers_.size(), 1));
    pass.saved.resize(layers_.size());
  }
  if (training.pieces() == 1) return;
  const auto pieces = index(training.pieces());
  sequences_.assign(passes_.size() / pieces,
                    std::vector<SequencePieces>(layers_.size(), {std::vector<Tensor>(pieces),
                                                                 std::vector<Tensor>(pieces)}));
}

std::string TrainedChunk::layer_names() const {
  const LayerRange range = training_.range_of(chunk_.stage);
  const auto name = [&](int layer) -> const std::string& {
    return training_.model.layers[static_cast<std::size_t>(layer)].name;
  };
  if (range.size() == 0) return "no layers";
  const std::string& first = name(range.first);
  return range.size() == 1 ? concat("layer ", first)
                           : concat("layers ", first, " to ", name(range.end - 1));
}

/// Start values, for the optimizer.
std::vector<Tensor> TrainedChunk::allocate_layers() {
  const Precision precision = training_.precision();
  std::vector<Tensor> starts;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (ParameterSpec& spec : layers_[i]->parameters()) {
      const auto twin = place_of(spec);
      twins_.push_back(twin ? 1 : 0);
      for (auto& slot : versions_.slots()) {
        slot.push_back(twin ? slot[*twin] : backend_.allocate(spec.shape, precision));
      }
      Tensor& weight = versions_.at(0).back();
      starts.push_back(twin ? Tensor{} : first_value(spec, weight));
      parameters_[i].push_back({.spec = std::move(spec), .weight = weight, .gradient = {}});
    }
  }
  return starts;
}

/// Sets the weight to its start value, which it returns if the optimizer needs the numbers, too.
Tensor TrainedChunk::first_value(const ParameterSpec& spec, Tensor& weight) {
  Tensor start = backend_.has_numbers() ? start_value(training_, spec)
                                        : backend_.allocate_apart(spec.shape, training_.sums());
  set_value(backend_, start, weight);
  return training_.sums() == training_.precision() ? Tensor{} : start;
}

/// Among the parameters there are so far: where the same numbers lie already, for a table that
/// embedding and head share.
std::optional<std::size_t> TrainedChunk::place_of(const ParameterSpec& spec) {
  const std::vector<Parameter*> all = parameters();
  const auto found = std::ranges::find_if(all, [&](const Parameter* parameter) {
    const ParameterSpec& other = parameter->spec;
    return other.name == spec.name && other.shape == spec.shape && runs_of(other) == runs_of(spec);
  });
  if (found == all.end()) return {};
  return static_cast<std::size_t>(found - all.begin());
}

/// One tensor for all gradients; each weight's is a part of it.
void TrainedChunk::allocate_training(std::span<const Tensor> starts) {
  std::int64_t elements = 0;
  for (const Parameter* parameter : parameters()) elements += parameter->weight.elements();
  gradients_ = backend_.allocate({elements}, training_.sums());
  backend_.zero_for_sums(gradients_);
  std::int64_t first = 0;
  for (Parameter* parameter : parameters()) {
    const std::int64_t end = first + parameter->weight.elements();
    parameter->gradient = reshaped(rows_of(gradients_, first, end), parameter->spec.shape);
    const std::size_t i = optimizer_.size();
    optimizer_.push_back(is_twin(i)
                             ? OptimizerState{}
                             : make_optimizer_state(training_, backend_, parameter->spec, starts[i],
                                                    shard_.place, shard_.members));
    first = end;
  }
}

std::vector<Parameter*> TrainedChunk::parameters() {
  std::vector<Parameter*> all;
  for (std::vector<Parameter>& layer : parameters_) {
    for (Parameter& parameter : layer) all.push_back(&parameter);
  }
  return all;
}

std::vector<Parameter*> TrainedChunk::find(const std::string& name) {
  std::vector<Parameter*> found = parameters();
  std::erase_if(found, [&](const Parameter* parameter) { return parameter->spec.name != name; });
  return found;
}

void TrainedChunk::begin_step() {
  if (updates_ > 0) versions_.begin_again();
}

void TrainedChunk::use_version(int version) {
  auto weight = versions_.at(version).begin();
  for (Parameter* parameter : parameters()) parameter->weight = *weight++;
}

/// Lets each layer see what the other pieces of the same sequences have left there.
void TrainedChunk::join_pieces(int microbatch) {
  for (std::size_t i = 0; i < layers_.size(); ++i) join_pieces(microbatch, i);
}

void TrainedChunk::join_pieces(int microbatch, std::size_t layer) {
  if (sequences_.empty()) return;
  pass(microbatch).saved[layer].pieces = &sequences_[index(microbatch / training_.pieces())][layer];
}

/// Those there are, layer by layer.
std::vector<const Tensor*> TrainedChunk::of_piece(
    int microbatch, std::vector<Tensor> SequencePieces::*tensors) const {
  std::vector<const Tensor*> found;
  if (sequences_.empty()) return found;
  const int pieces = training_.pieces();
  for (const SequencePieces& layer : sequences_[index(microbatch / pieces)]) {
    const Tensor& tensor = (layer.*tensors)[index(microbatch % pieces)];
    if (!tensor.empty()) found.push_back(&tensor);
  }
  return found;
}

std::vector<const Tensor*> TrainedChunk::past(int microbatch) const {
  return of_piece(microbatch, &SequencePieces::kept);
}

std::vector<const Tensor*> TrainedChunk::past_gradients(int microbatch) const {
  return of_piece(microbatch, &SequencePieces::gradients);
}

/// Without layers. A copy: what came in and what goes out each have a place of their own.
void TrainedChunk::pass_on(Tensor& from, Tensor& to) {
  to = backend_.allocate(from.shape, from.precision);
  backend_.copy(from, to);
  from = {};
}

void TrainedChunk::forward(int step, int microbatch) {
  MicrobatchPass& here = pass(microbatch);
  if (layers_.empty()) return pass_on(here.inputs.front(), here.output);
  here.block = block_of(training_, step, chunk_.stage, microbatch, chunk_.rows);
  join_pieces(microbatch);
  run_layers(here, trains_ && !recomputes_);
  if (!trains_) here.inputs.front() = {};
}

void TrainedChunk::recompute(int microbatch) {
  if (layers_.empty()) return;
  MicrobatchPass& here = pass(microbatch);
  // The output is long gone to the next stage; it must not come back.
  Tensor output = std::exchange(here.output, {});
  join_pieces(microbatch);
  run_layers(here, true);
  here.output = std::move(output);
}

Tensor TrainedChunk::run_layer(MicrobatchPass& pass, std::size_t layer) {
  return layers_[layer]->forward(backend_, parameters_[layer], samples_of(training_, pass.block),
                                 pass.inputs[layer], pass.saved[layer]);
}

void TrainedChunk::run_layers(MicrobatchPass& pass, bool keep) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Tensor output = run_layer(pass, i);
    pass.loss = pass.saved[i].loss;  // the last layer's counts
    if (keep) leave_out(pass, i);
    if (!keep) pass.saved[i] = {};
    if (!keep && i > 0) pass.inputs[i] = {};
    Tensor& next = i + 1 < layers_.size() ? pass.inputs[i + 1] : pass.output;
    next = std::move(output);
  }
}

/// What the layer does again later it need not keep.
void TrainedChunk::leave_out(MicrobatchPass& pass, std::size_t layer) {
  switch (again_[layer]) {
    case Recomputed::none: break;
    case Recomputed::selective: layers_[layer]->drop_attention(pass.saved[layer]); break;
    case Recomputed::full:
    case Recomputed::with_next: pass.saved[layer] = {}; break;
  }
  if (is_rebuilt_with_previous(layer)) pass.inputs[layer] = {};
}

bool TrainedChunk::is_rebuilt_with_previous(std::size_t layer) const {
  return layer > 0 && again_[layer - 1] == Recomputed::with_next;
}

void TrainedChunk::rebuild(int microbatch, std::size_t layer) {
  MicrobatchPass& here = pass(microbatch);
  switch (again_[layer]) {
    case Recomputed::none: break;
    case Recomputed::selective:
      layers_[layer]->attend_again(backend_, samples_of(training_, here.block), here.saved[layer]);
      break;
    case Recomputed::full: rebuild_run(microbatch, layer); break;
    case Recomputed::with_next: break;  // is there since the run's last layer was
  }
}

/// The layer, and before it those that recompute together with it.
void TrainedChunk::rebuild_run(int microbatch, std::size_t last) {
  MicrobatchPass& here = pass(microbatch);
  std::size_t layer = last;
  while (is_rebuilt_with_previous(layer)) --layer;
  for (; layer <= last; ++layer) {
    join_pieces(microbatch, layer);
    Tensor output = run_layer(here, layer);
    if (layer < last) here.inputs[layer + 1] = std::move(output);
  }
}

Tensor TrainedChunk::input_gradient_of(int microbatch, std::size_t layer,
                                       const Tensor& output_gradient) {
  rebuild(microbatch, layer);
  MicrobatchPass& here = pass(microbatch);
  return layers_[layer]->backward_input(backend_, parameters_[layer],
                                        samples_of(training_, here.block), here.inputs[layer],
                                        output_gradient, here.saved[layer]);
}

void TrainedChunk::add_weight_gradient_of(MicrobatchPass& pass, std::size_t layer) {
  layers_[layer]->backward_weight(backend_, parameters_[layer], samples_of(training_, pass.block),
                                  pass.inputs[layer], pass.saved[layer]);
  pass.saved[layer] = {};
  pass.inputs[layer] = {};
}

void TrainedChunk::backward(int microbatch) {
  MicrobatchPass& here = pass(microbatch);
  if (layers_.empty()) return pass_on(here.output_gradient, here.input_gradient);
  Tensor gradient = std::exchange(here.output_gradient, {});
  for (std::size_t i = layers_.size(); i-- > 0;) {
    gradient = input_gradient_of(microbatch, i, gradient);
    add_weight_gradient_of(here, i);
  }
  here.input_gradient = std::move(gradient);
}

void TrainedChunk::backward_input(int microbatch) {
  MicrobatchPass& here = pass(microbatch);
  if (layers_.empty()) return pass_on(here.output_gradient, here.input_gradient);
  Tensor gradient = std::exchange(here.output_gradient, {});
  for (std::size_t i = layers_.size(); i-- > 0;)
    gradient = input_gradient_of(microbatch, i, gradient);
  here.input_gradient = std::move(gradient);
}

void TrainedChunk::backward_weight(int microbatch) {
  MicrobatchPass& here = pass(microbatch);
  for (std::size_t i = layers_.size(); i-- > 0;) add_weight_gradient_of(here, i);
}

void TrainedChunk::update(int version, double factor) {
  ++updates_;
  const auto own = [&](const Tensor& tensor) {
    return shard_of(tensor, shard_.place, shard_.members);
  };
  const std::vector<Parameter*> all = parameters();
  WeightUpdates updates;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tensor updated = own(versions_.at(version)[i]);
    if (is_twin(i) || updated.elements() == 0) continue;
    updates[updates_of(i)].push_back(update_of(optimizer_[i], own(all[i]->gradient),
                                               own(versions_.at(version - 1)[i]), updated));
  }
  take_step(training_, backend_, part_ * factor, updates);
  use_version(version);
  backend_.zero_for_sums(gradients_);
}

// --- What a partner keeps
// -------------------------------------------------------------------------

std::vector<Tensor*> TrainedChunk::kept(int microbatch) {
  MicrobatchPass& here = pass(microbatch);
  std::vector<Tensor*> all;
  const auto take = [&](Tensor& tensor) {
    if (!tensor.shape.empty()) all.push_back(&tensor);
  };
  for (std::size_t i = 1; i < here.inputs.size(); ++i) take(here.inputs[i]);
  for (Saved& saved : here.saved) std::ranges::for_each(saved.tensors, take);
  return all;
}

std::vector<Tensor> shapes_kept(const Training& training, const Program& program, int chunk,
                                TensorPeers* peers, Backend& backend) {
  TrainedChunk trial(training, program, chunk, peers, backend);
  const Chunk& place = trial.place();
  if (!is_first(training.schedule, place.stage)) {
    Tensor& input = trial.pass(0).inputs.front();
    input = backend.allocate(training.boundary_shape(place.stage - 1, place.rows.size()),
                             training.precision());
    backend.zero(input);
  }
  trial.forward(0, 0);
  std::vector<Tensor> shapes;
  for (const Tensor* tensor : trial.kept(0)) {
    shapes.push_back(*tensor);
    shapes.back().storage = {};
  }
  return shapes;
}

}  // namespace stagecraft
