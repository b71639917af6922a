#include "executor/measurement/measured_layer.hpp"

#include <algorithm>
#include <utility>

#include "executor/driver/host.hpp"
#include "executor/layers/layers.hpp"
#include "executor/training/training.hpp"

namespace stagecraft {

namespace {

constexpr std::int64_t shades = 256;  // of a pixel

std::int64_t tokens_per_sample(const Model& model) {
  return model.transformer ? model.sequence : model.layers.front().image->input.elements();
}

std::int64_t classes_of(const Model& model) {
  return model.transformer ? model.transformer->vocabulary : model.layers.back().output_elements;
}

}  // namespace

MeasuredLayer::MeasuredLayer(const Model& model, int index, const MeasuredSize& size,
                             std::unique_ptr<Backend> backend, std::unique_ptr<TensorPeers> peers)
    : size_(size),
      peers_(std::move(peers)),
      layer_(make_layer(model, index, peers_.get())),
      kind_(model.layers[static_cast<std::size_t>(index)].kind),
      sequence_(std::max<std::int64_t>(model.sequence, 1)),
      tokens_(tokens_per_sample(model)),
      vocabulary_(model.transformer ? model.transformer->vocabulary : shades),
      classes_(classes_of(model)),
      input_elements_(
          index == 0 ? 0 : model.layers[static_cast<std::size_t>(index) - 1].output_elements),
      output_elements_(index + 1 == static_cast<int>(model.layers.size())
                           ? 0
                           : model.layers[static_cast<std::size_t>(index)].output_elements),
      backend_(std::move(backend)) {
  layer_->limit_logits(size.loss_rows);
  for (std::size_t i = 0; i < size.copies; ++i) copies_.push_back(make_copy());
  for (std::size_t i = 0; i < size.microbatches; ++i) microbatches_.push_back(make_microbatch(i));
  backend_->finish();
}

Tensor MeasuredLayer::zeros(const std::vector<std::int64_t>& shape) {
  Tensor tensor = backend_->allocate(shape, sums());
  backend_->zero(tensor);
  return tensor;
}

// In the process's memory.
Tensor MeasuredLayer::drawn(const ParameterSpec& spec, std::uint64_t seed) const {
  Parameter parameter{.spec = spec, .weight = host_tensor(spec.shape, sums()), .gradient = {}};
  initialize(parameter, seed, processors_per_rank(peers_ ? peers_->ranks() : 1));
  return parameter.weight;
}

// What crosses a layer boundary, filled with values of a usual size.
Tensor MeasuredLayer::noise(std::int64_t elements, double deviation, std::size_t seed) {
  const ParameterSpec spec{.name = "measured",
                           .shape = {size_.samples, sequence_, elements / sequence_},
                           .initialization = {.deviation = deviation},
                           .shard = {}};
  Tensor tensor = backend_->allocate(spec.shape, size_.precision);
  set_value(*backend_, drawn(spec, seed), tensor);
  return tensor;
}

MeasuredLayer::Copy MeasuredLayer::make_copy() {
  Copy copy;
  for (ParameterSpec& spec : layer_->parameters()) {
    Tensor gradient = zeros(spec.shape);
    for (int moment = 0; moment < 2; ++moment) copy.moments.push_back(zeros(spec.shape));
    const Tensor start = drawn(spec, copies_.size());
    Tensor weight = backend_->allocate(spec.shape, size_.precision);
    set_value(*backend_, start, weight);
    if (sums() != size_.precision) {
      copy.masters.push_back(backend_->allocate(spec.shape, sums()));
      set_value(*backend_, start, copy.masters.back());
    }
    copy.parameters.push_back({std::move(spec), std::move(weight), std::move(gradient)});
  }
  return copy;
}

MeasuredLayer::Microbatch MeasuredLayer::make_microbatch(std::size_t number) {
  Microbatch microbatch;
  const auto fill = [&](std::vector<std::int32_t>& values, std::int64_t count, std::int64_t most) {
    const auto first = static_cast<std::int64_t>(number) * count;
    for (std::int64_t i = first; i < first + count; ++i) {
      // Multiples of a prime are all over the vocabulary.
      values.push_back(static_cast<std::int32_t>(i * 7919 % most));
    }
  };
  fill(microbatch.tokens, size_.samples * tokens_, vocabulary_);
  fill(microbatch.targets, size_.samples * sequence_, classes_);
  if (input_elements_ > 0) microbatch.input = noise(input_elements_, 1, 2 * number);
  if (output_elements_ > 0) {
    microbatch.output_gradient = noise(output_elements_, 1e-3, 2 * number + 1);
  }
  microbatch.outputs.resize(size_.copies);
  microbatch.saved.resize(size_.copies);
  return microbatch;
}

Samples MeasuredLayer::samples(const Microbatch& microbatch) const {
  return {.count = size_.samples,
          .sequence = sequence_,
          .tokens = microbatch.tokens,
          .targets = microbatch.targets,
          .loss_scale = 1.0 / static_cast<double>(microbatch.targets.size())};
}

const Tensor& MeasuredLayer::input_of(const Microbatch& microbatch, std::size_t copy) const {
  return chained() && copy > 0 ? microbatch.outputs[copy - 1] : microbatch.input;
}

void MeasuredLayer::forward(std::size_t microbatch, std::size_t copy) {
  Microbatch& here = microbatches_[microbatch];
  here.outputs[copy] = layer_->forward(*backend_, copies_[copy].parameters, samples(here),
                                       input_of(here, copy), here.saved[copy]);
  backend_->finish();
}

void MeasuredLayer::backward_input(std::size_t microbatch, std::size_t copy) {
  Microbatch& here = microbatches_[microbatch];
  const bool last = !chained() || copy + 1 == size_.copies;
  const Tensor gradient = last ? here.output_gradient : std::exchange(here.gradient, {});
  here.gradient = layer_->backward_input(*backend_, copies_[copy].parameters, samples(here),
                                         input_of(here, copy), gradient, here.saved[copy]);
  backend_->finish();
}

void MeasuredLayer::backward_weight(std::size_t microbatch, std::size_t copy) {
  Microbatch& here = microbatches_[microbatch];
  layer_->backward_weight(*backend_, copies_[copy].parameters, samples(here), input_of(here, copy),
                          here.saved[copy]);
  backend_->finish();
  here.outputs[copy] = {};
}

bool MeasuredLayer::drop_attention(std::size_t microbatch, std::size_t copy) {
  return layer_->drop_attention(microbatches_[microbatch].saved[copy]);
}

void MeasuredLayer::attend_again(std::size_t microbatch, std::size_t copy) {
  Microbatch& here = microbatches_[microbatch];
  layer_->attend_again(*backend_, samples(here), here.saved[copy]);
  backend_->finish();
}

void MeasuredLayer::update(std::size_t copy) {
  Copy& here = copies_[copy];
  const AdamW options{.learning_rate = 1e-6};
  ++here.steps;
  std::vector<WeightUpdate> updates;
  for (std::size_t i = 0; i < here.parameters.size(); ++i) {
    const Parameter& parameter = here.parameters[i];
    const OptimizerState state{.first_moment = here.moments[2 * i],
                               .second_moment = here.moments[2 * i + 1],
                               .master = here.masters.empty() ? Tensor{} : here.masters[i]};
    updates.push_back(update_of(state, parameter.gradient, parameter.weight, parameter.weight));
  }
  backend_->adamw_step(options, here.steps, 1, updates);
  for (Parameter& parameter : here.parameters) backend_->zero(parameter.gradient);
  backend_->finish();
}

Bytes MeasuredLayer::parameter_bytes() const {
  Bytes bytes = 0;
  for (const Parameter& parameter : copies_[0].parameters) bytes += parameter.weight.bytes();
  return bytes;
}

Bytes MeasuredLayer::gradient_bytes() const {
  Bytes bytes = 0;
  for (const Parameter& parameter : copies_[0].parameters) bytes += parameter.gradient.bytes();
  return bytes;
}

Bytes MeasuredLayer::optimizer_bytes() const {
  Bytes bytes = 0;
  for (const Tensor& moment : copies_[0].moments) bytes += moment.bytes();
  for (const Tensor& master : copies_[0].masters) bytes += master.bytes();
  return bytes;
}

}  // namespace stagecraft
