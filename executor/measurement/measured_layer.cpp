#include "executor/measurement/measured_layer.hpp"

#include <utility>

#include "executor/layers.hpp"

namespace stagecraft {

MeasuredLayer::MeasuredLayer(const Model& model, int index, const MeasuredSize& size)
    : size_(size),
      layer_(make_layer(model, index)),
      kind_(model.layers[static_cast<std::size_t>(index)].kind),
      sequence_(model.sequence),
      hidden_(model.transformer->hidden),
      vocabulary_(model.transformer->vocabulary),
      backend_(make_cpu_backend()) {
  for (std::size_t i = 0; i < size.copies; ++i) copies_.push_back(make_copy());
  for (std::size_t i = 0; i < size.microbatches; ++i) microbatches_.push_back(make_microbatch(i));
}

Tensor MeasuredLayer::zeros(const std::vector<std::int64_t>& shape) {
  Tensor tensor = backend_->allocate(shape, size_.precision);
  backend_->zero(tensor);
  return tensor;
}

// What crosses a layer boundary, filled with values of a usual size.
Tensor MeasuredLayer::noise(double deviation, std::size_t seed) {
  Parameter drawn;
  drawn.spec.name = "measured";
  drawn.spec.initialization.deviation = deviation;
  drawn.weight = backend_->allocate({size_.samples, sequence_, hidden_}, size_.precision);
  initialize(drawn, seed);
  return drawn.weight;
}

MeasuredLayer::Copy MeasuredLayer::make_copy() {
  Copy copy;
  for (ParameterSpec& spec : layer_->parameters()) {
    Tensor gradient = zeros(spec.shape);
    for (int moment = 0; moment < 2; ++moment) copy.moments.push_back(zeros(spec.shape));
    Tensor weight = backend_->allocate(spec.shape, size_.precision);
    copy.parameters.push_back({std::move(spec), std::move(weight), std::move(gradient)});
    initialize(copy.parameters.back(), copies_.size());
  }
  return copy;
}

MeasuredLayer::Microbatch MeasuredLayer::make_microbatch(std::size_t number) {
  Microbatch microbatch;
  const std::int64_t tokens = size_.samples * sequence_;
  const auto first = static_cast<std::int64_t>(number) * tokens;
  for (std::int64_t i = first; i < first + tokens; ++i) {
    // Multiples of a prime are all over the vocabulary.
    microbatch.tokens.push_back(static_cast<std::int32_t>(i * 7919 % vocabulary_));
    microbatch.targets.push_back(static_cast<std::int32_t>((i + 1) * 7919 % vocabulary_));
  }
  if (kind_ != LayerKind::embedding) microbatch.input = noise(1, 2 * number);
  if (kind_ != LayerKind::head) microbatch.output_gradient = noise(1e-3, 2 * number + 1);
  microbatch.outputs.resize(size_.copies);
  microbatch.saved.resize(size_.copies);
  return microbatch;
}

Samples MeasuredLayer::samples(const Microbatch& microbatch) const {
  return {.count = size_.samples,
          .sequence = sequence_,
          .tokens = microbatch.tokens,
          .targets = microbatch.targets,
          .loss_scale = 1.0 / static_cast<double>(microbatch.tokens.size())};
}

const Tensor& MeasuredLayer::input_of(const Microbatch& microbatch, std::size_t copy) const {
  return chained() && copy > 0 ? microbatch.outputs[copy - 1] : microbatch.input;
}

void MeasuredLayer::forward(std::size_t microbatch, std::size_t copy) {
  Microbatch& here = microbatches_[microbatch];
  here.outputs[copy] = layer_->forward(*backend_, copies_[copy].parameters, samples(here),
                                       input_of(here, copy), here.saved[copy]);
}

void MeasuredLayer::backward_input(std::size_t microbatch, std::size_t copy) {
  Microbatch& here = microbatches_[microbatch];
  const bool last = !chained() || copy + 1 == size_.copies;
  const Tensor gradient = last ? here.output_gradient : std::exchange(here.gradient, {});
  here.gradient = layer_->backward_input(*backend_, copies_[copy].parameters, samples(here),
                                         input_of(here, copy), gradient, here.saved[copy]);
}

void MeasuredLayer::backward_weight(std::size_t microbatch, std::size_t copy) {
  Microbatch& here = microbatches_[microbatch];
  layer_->backward_weight(*backend_, copies_[copy].parameters, samples(here), input_of(here, copy),
                          here.saved[copy]);
  here.outputs[copy] = {};
}

void MeasuredLayer::update(std::size_t copy) {
  Copy& here = copies_[copy];
  const AdamW options{.learning_rate = 1e-6};
  ++here.steps;
  for (std::size_t i = 0; i < here.parameters.size(); ++i) {
    Parameter& parameter = here.parameters[i];
    backend_->adamw(options, here.steps, parameter.gradient, here.moments[2 * i],
                    here.moments[2 * i + 1], parameter.weight);
    backend_->zero(parameter.gradient);
  }
}

Bytes MeasuredLayer::parameter_bytes() const {
  Bytes bytes = 0;
  for (const Parameter& parameter : copies_[0].parameters) bytes += parameter.weight.bytes();
  return bytes;
}

}  // namespace stagecraft
