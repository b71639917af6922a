#include "executor/layers/parts.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "profiles/error.hpp"
#include "profiles/trained_form.hpp"

namespace stagecraft {

namespace {

// The tensor's rows with another width.
Tensor allocate_rows(Backend& backend, const Tensor& like, std::int64_t width) {
  std::vector<std::int64_t> shape = like.shape;
  shape.back() = width;
  return backend.allocate(std::move(shape), like.precision);
}

Tensor allocate_statistics(Backend& backend, const Tensor& x) {
  return backend.allocate({x.elements() / x.shape.back()}, precision_of_sums(x.precision));
}

Tensor bias_of(const Linear& part, std::span<const Parameter> parameters) {
  return part.bias ? parameters[*part.bias].weight : Tensor{};
}

// Hugging Face transformers, modeling_rope_utils.py: _compute_llama3_parameters.
double scaled(double frequency, const RotaryScaling& scaling) {
  const double turns = static_cast<double>(scaling.positions) * frequency / (2 * std::numbers::pi);
  if (turns < scaling.low_frequency) return frequency / scaling.factor;
  if (turns > scaling.high_frequency) return frequency;
  const double kept =
      (turns - scaling.low_frequency) / (scaling.high_frequency - scaling.low_frequency);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

}  // namespace

Tensor linear(Backend& backend, const Linear& part, std::span<const Parameter> parameters,
              const Tensor& x, const Tensor& residual) {
  const Tensor& weight = parameters[part.weight].weight;
  Tensor y = allocate_rows(backend, x, weight.shape[1]);
  backend.linear(x, weight, bias_of(part, parameters), residual, y);
  return y;
}

Tensor linear_of_rows(Backend& backend, const Linear& part, std::span<const Parameter> parameters,
                      const Tensor& x, const Tensor& residual, TensorPeers* peers) {
  if (peers == nullptr) return linear(backend, part, parameters, x, residual);
  Tensor y = linear(backend, {.weight = part.weight, .bias = {}}, parameters, x);
  peers->sum(backend, y);
  if (part.bias) backend.add_bias(parameters[*part.bias].weight, y);
  if (!residual.empty()) backend.add(residual, y);
  return y;
}

Tensor linear_input(Backend& backend, const Linear& part, std::span<const Parameter> parameters,
                    const Tensor& dy) {
  const Tensor& weight = parameters[part.weight].weight;
  Tensor dx = allocate_rows(backend, dy, weight.shape[0]);
  backend.matmul(dy, false, weight, true, dx, false);
  return dx;
}

Tensor linear_input_of_columns(Backend& backend, const Linear& part,
                               std::span<const Parameter> parameters, const Tensor& dy,
                               TensorPeers* peers) {
  Tensor dx = linear_input(backend, part, parameters, dy);
  if (peers != nullptr) peers->sum(backend, dx);
  return dx;
}

void linear_weight(Backend& backend, const Linear& part, std::span<Parameter> parameters,
                   const Tensor& x, const Tensor& dy) {
  Tensor none;
  backend.linear_weight(x, dy, parameters[part.weight].gradient,
                        part.bias ? parameters[*part.bias].gradient : none);
}

Activated linear_gelu(Backend& backend, const Linear& part, std::span<const Parameter> parameters,
                      const Tensor& x) {
  const Tensor& weight = parameters[part.weight].weight;
  Activated result{.before = allocate_rows(backend, x, weight.shape[1]),
                   .y = allocate_rows(backend, x, weight.shape[1])};
  backend.linear_gelu(x, weight, bias_of(part, parameters), result.before, result.y);
  return result;
}

Tensor linear_gelu_input(Backend& backend, const Linear& part,
                         std::span<const Parameter> parameters, const Tensor& dy,
                         const Tensor& before) {
  Tensor dx = backend.allocate(before.shape, before.precision);
  backend.linear_gelu_input(dy, parameters[part.weight].weight, before, dx);
  return dx;
}

Tensor norm_weights(Backend& backend, const Norm& part, std::span<const Parameter> parameters) {
  const Tensor& weight = parameters[part.weight].weight;
  if (!part.from_one) return weight;
  Tensor more = backend.allocate(weight.shape, weight.precision);
  backend.one_more(weight, more);
  return more;
}

Normed norm(Backend& backend, const Norm& part, std::span<const Parameter> parameters,
            const Tensor& x) {
  const Tensor weight = norm_weights(backend, part, parameters);
  Normed result{.y = backend.allocate(x.shape, x.precision),
                .mean = {},
                .scale = allocate_statistics(backend, x)};
  switch (part.kind) {
    case Transformer::Norm::layer_norm:
      result.mean = allocate_statistics(backend, x);
      backend.layer_norm(x, weight, parameters[part.bias].weight, part.epsilon, result.y,
                         result.mean, result.scale);
      break;
    case Transformer::Norm::rms_norm:
      backend.rms_norm(x, weight, part.epsilon, result.y, result.scale);
      break;
  }
  return result;
}

Tensor norm_input(Backend& backend, const Norm& part, std::span<const Parameter> parameters,
                  const Tensor& dy, const Tensor& x, const Normed& normed) {
  const Tensor weight = norm_weights(backend, part, parameters);
  Tensor dx = backend.allocate(x.shape, x.precision);
  switch (part.kind) {
    case Transformer::Norm::layer_norm:
      backend.layer_norm_input(dy, x, weight, normed.mean, normed.scale, dx);
      break;
    case Transformer::Norm::rms_norm:
      backend.rms_norm_input(dy, x, weight, normed.scale, dx);
      break;
  }
  return dx;
}

Tensor norm_input_and_residual(Backend& backend, const Norm& part,
                               std::span<const Parameter> parameters, const Tensor& dy,
                               const Tensor& x, const Normed& normed, const Tensor& residual) {
  Tensor dx = backend.allocate(x.shape, x.precision);
  backend.norm_input_and_residual(dy, x, norm_weights(backend, part, parameters), normed.mean,
                                  normed.scale, residual, dx);
  return dx;
}

void norm_weight(Backend& backend, const Norm& part, std::span<Parameter> parameters,
                 const Tensor& dy, const Tensor& x, const Normed& normed) {
  Tensor& gradient = parameters[part.weight].gradient;
  switch (part.kind) {
    case Transformer::Norm::layer_norm:
      backend.layer_norm_weight(dy, x, normed.mean, normed.scale, gradient,
                                parameters[part.bias].gradient);
      break;
    case Transformer::Norm::rms_norm: backend.rms_norm_weight(dy, x, normed.scale, gradient); break;
  }
}

std::size_t PartList::parameter(const std::string& name, std::vector<std::int64_t> shape,
                                Initialization initialization) {
  specs_.push_back({.name = name_.empty() ? name : name_ + "." + name,
                    .shape = std::move(shape),
                    .initialization = initialization});
  return specs_.size() - 1;
}

Linear PartList::linear(const std::string& name, std::int64_t inputs, std::int64_t outputs,
                        bool bias, double deviation) {
  Linear part;
  part.weight = parameter(name + ".weight", {inputs, outputs}, {.deviation = deviation});
  if (bias) part.bias = parameter(name + ".bias", {outputs}, zeros);
  return part;
}

Linear PartList::linear_of_columns(const std::string& name, std::int64_t inputs,
                                   const std::vector<std::int64_t>& outputs, bool bias,
                                   double deviation) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  std::int64_t first = 0;
  for (const std::int64_t width : outputs) {
    const auto [start, end] = share_of(width, peers_);
    ranges.emplace_back(first + start, first + end);
    first += width;
  }
  const Linear part = linear(name, inputs, first, bias, deviation);
  cut(specs_[part.weight], true, ranges, peers_);
  if (part.bias) cut(specs_[*part.bias], true, ranges, peers_);
  return part;
}

Linear PartList::linear_of_rows(const std::string& name, std::int64_t inputs, std::int64_t outputs,
                                bool bias, double deviation) {
  const Linear part = linear(name, inputs, outputs, bias, deviation);
  cut(specs_[part.weight], false, {share_of(inputs, peers_)}, peers_);
  return part;
}

Norm PartList::norm(const std::string& name, const Transformer& transformer) {
  if (transformer.norm == Transformer::Norm::rms_norm)
    return rms_norm(name, transformer.hidden, transformer);
  Norm part{.kind = transformer.norm, .epsilon = transformer.norm_epsilon};
  part.weight = parameter(name + ".weight", {transformer.hidden}, ones);
  part.bias = parameter(name + ".bias", {transformer.hidden}, zeros);
  return part;
}

Norm PartList::rms_norm(const std::string& name, std::int64_t width,
                        const Transformer& transformer) {
  Norm part{.kind = Transformer::Norm::rms_norm,
            .epsilon = transformer.norm_epsilon,
            .from_one = transformer.arithmetic.norms_from_one};
  part.weight = parameter(name + ".weight", {width}, part.from_one ? zeros : ones);
  return part;
}

std::pair<std::int64_t, std::int64_t> share_of(std::int64_t whole, const TensorPeers* peers) {
  if (peers == nullptr) return {0, whole};
  return {whole * peers->rank() / peers->ranks(), whole * (peers->rank() + 1) / peers->ranks()};
}

void cut(ParameterSpec& spec, bool columns,
         std::vector<std::pair<std::int64_t, std::int64_t>> ranges, const TensorPeers* peers) {
  if (peers == nullptr) return;
  std::int64_t size = 0;
  for (const auto& [first, end] : ranges) size += end - first;
  spec.shard = WeightShard{.whole = spec.shape, .columns = columns, .ranges = std::move(ranges)};
  (columns ? spec.shape.back() : spec.shape.front()) = size;
}

std::vector<double> rotary_frequencies(const Transformer& transformer, bool window) {
  std::vector<double> frequencies;
  const Arithmetic& arithmetic = transformer.arithmetic;
  const std::int64_t pairs = turned_width(transformer) / 2;
  const bool own_base = window && arithmetic.window_rotary_base > 0;
  const double base = own_base ? arithmetic.window_rotary_base : transformer.rotary_base;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double exponent = -static_cast<double>(i) / static_cast<double>(pairs);
    const double frequency = std::pow(base, exponent) / (own_base ? 1.0 : arithmetic.rotary_factor);
    const auto& scaling = transformer.rotary_scaling;
    frequencies.push_back(scaling ? scaled(frequency, *scaling) : frequency);
  }
  return frequencies;
}

const Transformer& trainable_transformer(const Model& model, int index) {
  const Layer& layer = model.layers.at(static_cast<std::size_t>(index));
  const std::string reason = reason_against_training(model, layer);
  if (!reason.empty())
    fail("cannot train layer \"", layer.name, "\" of ", model.name, ": ", reason);
  return *model.transformer;
}

std::string token_table_name(const Model& model) {
  const auto owner = std::ranges::find(model.layers, LayerKind::embedding, &Layer::kind);
  return (owner == model.layers.end() ? "embedding" : owner->name) + ".token.weight";
}

}  // namespace stagecraft
