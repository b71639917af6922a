#include "executor/trained_chunk.hpp"

#include <utility>

namespace stagecraft {

TrainedChunk::TrainedChunk(const Training& training, const Chunk& chunk, Backend& backend)
    : training_(training),
      chunk_(chunk),
      backend_(backend),
      layers_(training.layers_of(chunk.stage)),
      recomputes_(training.plan.stages[static_cast<std::size_t>(chunk.stage)].recompute ==
                  Recompute::full),
      states_(layers_.size()),
      passes_(static_cast<std::size_t>(training.plan.batch.microbatches)) {
  allocate_layers();
  cut_gradients();
  for (Pass& pass : passes_) {
    pass.inputs.resize(layers_.size());
    pass.saved.resize(layers_.size());
  }
}

void TrainedChunk::allocate_layers() {
  const Precision precision = training_.plan.precision;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (ParameterSpec& spec : layers_[i]->parameters()) {
      states_[i].optimizer.push_back(make_optimizer_state(training_, backend_, spec));
      Tensor weight = backend_.allocate(spec.shape, precision);
      states_[i].parameters.push_back(
          {.spec = std::move(spec), .weight = std::move(weight), .gradient = {}});
      set_start_value(states_[i].parameters.back(), training_.options);
    }
  }
}

/// One tensor for all gradients; each weight's is a part of it.
void TrainedChunk::cut_gradients() {
  std::int64_t elements = 0;
  for (const Parameter* parameter : parameters()) elements += parameter->weight.elements();
  gradients_ = backend_.allocate({elements}, training_.plan.precision);
  backend_.zero(gradients_);
  std::int64_t first = 0;
  for (Parameter* parameter : parameters()) {
    const std::int64_t end = first + parameter->weight.elements();
    parameter->gradient = reshaped(rows_of(gradients_, first, end), parameter->spec.shape);
    first = end;
  }
}

std::vector<Parameter*> TrainedChunk::parameters() {
  std::vector<Parameter*> all;
  for (LayerState& state : states_) {
    for (Parameter& parameter : state.parameters) all.push_back(&parameter);
  }
  return all;
}

std::vector<Parameter*> TrainedChunk::find(const std::string& name) {
  std::vector<Parameter*> found = parameters();
  std::erase_if(found, [&](const Parameter* parameter) { return parameter->spec.name != name; });
  return found;
}

void TrainedChunk::forward(int step, int microbatch) {
  Pass& here = pass(microbatch);
  here.block = block_of(training_, step, microbatch, chunk_.rows);
  run_layers(here, !recomputes_);
}

void TrainedChunk::recompute(int microbatch) {
  Pass& here = pass(microbatch);
  // The output is long gone to the next stage; it must not come back.
  Tensor output = std::exchange(here.output, {});
  run_layers(here, true);
  here.output = std::move(output);
}

void TrainedChunk::run_layers(Pass& pass, bool keep) {
  const Samples samples = samples_of(training_, pass.block);
  pass.loss = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Tensor output = layers_[i]->forward(backend_, states_[i].parameters, samples, pass.inputs[i],
                                        pass.saved[i]);
    pass.loss += pass.saved[i].loss;
    if (!keep) pass.saved[i] = {};
    if (!keep && i > 0) pass.inputs[i] = {};
    Tensor& next = i + 1 < layers_.size() ? pass.inputs[i + 1] : pass.output;
    next = std::move(output);
  }
}

Tensor TrainedChunk::input_gradient_of(Pass& pass, std::size_t layer,
                                       const Tensor& output_gradient) {
  return layers_[layer]->backward_input(backend_, states_[layer].parameters,
                                        samples_of(training_, pass.block), pass.inputs[layer],
                                        output_gradient, pass.saved[layer]);
}

void TrainedChunk::add_weight_gradient_of(Pass& pass, std::size_t layer) {
  layers_[layer]->backward_weight(backend_, states_[layer].parameters,
                                  samples_of(training_, pass.block), pass.inputs[layer],
                                  pass.saved[layer]);
  pass.saved[layer] = {};
  pass.inputs[layer] = {};
}

void TrainedChunk::backward(int microbatch) {
  Pass& here = pass(microbatch);
  Tensor gradient = std::exchange(here.output_gradient, {});
  for (std::size_t i = layers_.size(); i-- > 0;) {
    gradient = input_gradient_of(here, i, gradient);
    add_weight_gradient_of(here, i);
  }
  here.input_gradient = std::move(gradient);
}

void TrainedChunk::backward_input(int microbatch) {
  Pass& here = pass(microbatch);
  Tensor gradient = std::exchange(here.output_gradient, {});
  for (std::size_t i = layers_.size(); i-- > 0;) gradient = input_gradient_of(here, i, gradient);
  here.input_gradient = std::move(gradient);
}

void TrainedChunk::backward_weight(int microbatch) {
  Pass& here = pass(microbatch);
  for (std::size_t i = layers_.size(); i-- > 0;) add_weight_gradient_of(here, i);
}

void TrainedChunk::update(int step) {
  for (LayerState& state : states_) {
    for (std::size_t i = 0; i < state.parameters.size(); ++i) {
      Parameter& parameter = state.parameters[i];
      take_step(training_, backend_, step, parameter.gradient, state.optimizer[i],
                parameter.weight);
    }
  }
  backend_.zero(gradients_);
}

}  // namespace stagecraft
