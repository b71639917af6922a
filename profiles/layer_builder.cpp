#include "profiles/layer_builder.hpp"

#include <algorithm>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

void divide(std::string_view what, std::int64_t whole, std::int64_t parts) {
  if (parts >= 1 && whole % parts == 0) return;
  fail("a degree of ", parts, " does not divide the ", whole, " ", what);
}

void check(const Transformer& transformer, const WorkSetting& setting) {
  divide("attention heads", transformer.heads, setting.tensor_parallel);
  divide("tokens of a sample", setting.sequence, setting.context_parallel);
  const std::int64_t groups = transformer.key_value_heads;
  if (groups % setting.tensor_parallel != 0) {
    divide("tensor-parallel peers", setting.tensor_parallel, groups);
  }
  if (transformer.experts) divide("experts", transformer.experts->count, setting.expert_parallel);
}

}  // namespace

DeviceShare::DeviceShare(const Transformer& of, const WorkSetting& with)
    : transformer(of), setting(with) {
  check(of, with);
  tokens = static_cast<double>(with.microbatch) * static_cast<double>(with.sequence) /
           with.context_parallel;
  spread_tokens = with.sequence_parallel ? tokens / with.tensor_parallel : tokens;
  hidden = static_cast<double>(of.hidden);
  heads = static_cast<double>(of.heads) / with.tensor_parallel;
  key_value_heads = std::max(1.0, static_cast<double>(of.key_value_heads) / with.tensor_parallel);
  element = static_cast<double>(element_bytes(with.precision));
  expert_tensor =
      with.expert_tensor_parallel > 0 ? with.expert_tensor_parallel : with.tensor_parallel;
}

void LayerBuilder::linear(std::string_view name, double tokens, double outputs, double inputs) {
  const bool narrow = is_float8(share_.setting.precision);
  if (narrow) cast("cast of inputs", Pass::forward, tokens * inputs);
  products(name, 1, tokens, outputs, inputs, true);
  if (narrow) cast("cast of gradients", Pass::backward_input, tokens * outputs);
}

void LayerBuilder::wide_linear(std::string_view name, double tokens, double outputs,
                               double inputs) {
  products(name, 1, tokens, outputs, inputs, false);
}

void LayerBuilder::grouped_linear(std::string_view name, double count, double tokens,
                                  double outputs, double inputs) {
  const bool narrow = is_float8(share_.setting.precision);
  if (narrow) cast_of_experts("cast of inputs", Pass::forward, tokens * inputs, count);
  products(name, count, tokens, outputs, inputs, true);
  if (narrow) cast_of_experts("cast of gradients", Pass::backward_input, tokens * outputs, count);
}

/// Transformer Engine's grouped linear layer multiplies and rounds each expert's rows by kernels of
/// their own (`GroupedLinear`, `multi_stream_cublas_gemm`); PyTorch's product of groups is one.
bool LayerBuilder::has_grouped_layers() const {
  const WorkSetting& setting = share_.setting;
  return setting.grouped_experts && setting.framework == Framework::megatron;
}

/// Products in 8 bits read what a kernel has rounded and, for the weights' gradient, transposed
/// (Micikevicius et al. 2022; cast_transpose of Transformer Engine): two bytes read, two of one
/// byte written. Weights are rounded once a step. What a recipe adds is mostly in the kernels
/// before, else in `float8_rate`: the runs it is fitted on do not say their recipe.
void LayerBuilder::cast(std::string_view name, Pass pass, double elements) {
  add({.name = name, .pass = pass, .bytes = 4 * elements, .modules = 0});
}

/// Of experts' rows, delayed scaling rounds all in one kernel, the others each expert's
/// (`split_quantize`, `multi_tensor_quantize_impl`); a tensor scaled by itself is read once more
/// for its largest number, which takes three kernels besides (`Float8CurrentScalingQuantizer`).
void LayerBuilder::cast_of_experts(std::string_view name, Pass pass, double elements,
                                   double experts) {
  cast(name, pass, elements);
  const Float8Recipe recipe = share_.setting.float8_recipe;
  if (!has_grouped_layers() || recipe == Float8Recipe::delayed) return;
  Operation& operation = layer_.operations.back();
  operation.parts = experts;
  if (recipe != Float8Recipe::tensorwise) return;
  operation.bytes += 2 * elements;
  operation.kernels = 4;
}

void LayerBuilder::products(std::string_view name, double count, double tokens, double outputs,
                            double inputs, bool narrow) {
  const double rows = tokens / count;
  const double moved = (tokens * (outputs + inputs) + count * outputs * inputs) * share_.element;
  const Operation product{.name = name,
                          .kind = OperationKind::product,
                          .batch = count,
                          .m = rows,
                          .n = outputs,
                          .k = inputs,
                          .flops = 2 * tokens * outputs * inputs,
                          .bytes = moved,
                          .narrow = narrow,
                          .parts = has_grouped_layers() ? count : 1};
  Operation to_input = product;
  to_input.pass = Pass::backward_input;
  std::swap(to_input.n, to_input.k);
  Operation to_weight = product;
  to_weight.modules = 0;
  to_weight.pass = Pass::backward_weight;
  to_weight.m = outputs;
  to_weight.n = inputs;
  to_weight.k = rows;
  // The product is added to the gradient's sum: read and written.
  const auto sum = static_cast<double>(share_.setting.gradient_bytes);
  to_weight.bytes =
      tokens * (outputs + inputs) * share_.element + 2 * sum * count * outputs * inputs;
  add(product);
  add(to_input);
  add(to_weight);
}

void LayerBuilder::traffic(std::string_view name, double forward_bytes, double backward_bytes,
                           bool core_attention) {
  Operation operation{.name = name, .bytes = forward_bytes, .core_attention = core_attention};
  if (forward_bytes > 0) add(operation);
  operation.pass = Pass::backward_input;
  operation.bytes = backward_bytes;
  if (backward_bytes > 0) add(operation);
}

void LayerBuilder::activation_product(std::string_view name, double batch, double m, double n,
                                      double k) {
  Operation product{.name = name,
                    .kind = OperationKind::product,
                    .batch = batch,
                    .m = m,
                    .n = n,
                    .k = k,
                    .flops = 2 * batch * m * n * k,
                    .bytes = batch * (m * n + m * k + n * k) * share_.element,
                    .core_attention = true};
  add(product);
  product.pass = Pass::backward_input;
  add(product);
  std::swap(product.n, product.k);
  add(product);
}

void LayerBuilder::message(std::string_view name, OperationKind forward, OperationKind backward,
                           PeerGroup group, double bytes) {
  message(name, forward, backward, group, bytes, bytes);
}

void LayerBuilder::message(std::string_view name, OperationKind forward, OperationKind backward,
                           PeerGroup group, double forward_bytes, double backward_bytes,
                           const RowCopies& copies) {
  Operation operation{
      .name = name, .kind = forward, .bytes = forward_bytes, .group = group, .copies = copies};
  add(operation);
  operation.kind = backward;
  operation.pass = Pass::backward_input;
  operation.bytes = backward_bytes;
  add(operation);
}

void LayerBuilder::keep(std::string_view name, double bytes, bool core_attention) {
  layer_.kept.push_back({.name = name,
                         .bytes = static_cast<Bytes>(bytes),
                         .core_attention = core_attention,
                         .routed = routed_});
}

void LayerBuilder::keep_or_rebuild(std::string_view name, double bytes) {
  keep(name, bytes);
  layer_.kept.back().rebuilt = true;
}

void LayerBuilder::rebuilds_since(std::size_t operations) {
  for (std::size_t i = operations; i < layer_.operations.size(); ++i) {
    Operation& operation = layer_.operations[i];
    operation.rebuilds = operation.pass == Pass::forward;
  }
}

void LayerBuilder::one_module_since(std::size_t operations) {
  bool forward = false, backward = false;
  for (std::size_t i = operations; i < layer_.operations.size(); ++i) {
    Operation& operation = layer_.operations[i];
    bool& counted = operation.pass == Pass::forward ? forward : backward;
    if (counted) operation.modules = 0;
    counted = true;
  }
}

void LayerBuilder::repeated_since(std::size_t operations, double times) {
  for (std::size_t i = operations; i < layer_.operations.size(); ++i) {
    layer_.operations[i].launches *= times;
    layer_.operations[i].modules *= times;
  }
}

void LayerBuilder::kernels_since(std::size_t operations, double forward, double backward) {
  for (std::size_t i = operations; i < layer_.operations.size(); ++i) {
    Operation& operation = layer_.operations[i];
    operation.launches = operation.pass == Pass::forward ? forward : backward;
  }
}

void LayerBuilder::parts_since(std::size_t operations, double experts, double forward,
                               double backward) {
  kernels_since(operations, forward, backward);
  for (std::size_t i = operations; i < layer_.operations.size(); ++i)
    layer_.operations[i].parts = experts;
}

void LayerBuilder::weights(double elements, bool of_experts) {
  layer_.weights += static_cast<std::int64_t>(elements);
  if (of_experts) layer_.expert_weights += static_cast<std::int64_t>(elements);
}

void LayerBuilder::working(double bytes) {
  layer_.working = std::max(layer_.working, static_cast<Bytes>(bytes));
}

/// With sequence parallelism each peer has a part of the tokens and gathers the others' (forward),
/// and again for the weight gradient; without, backward sums the gradients of the input.
void gather_rows(LayerBuilder& layer, std::string_view name, double width) {
  const DeviceShare& share = layer.share();
  if (share.setting.tensor_parallel == 1) return;
  const double bytes = share.tokens * width * share.element;
  if (share.setting.sequence_parallel) {
    layer.message(name, OperationKind::all_gather, OperationKind::reduce_scatter, PeerGroup::tensor,
                  bytes);
    layer.add({.name = name,
               .kind = OperationKind::all_gather,
               .pass = Pass::backward_weight,
               .bytes = bytes});
  } else {
    layer.add({.name = name,
               .kind = OperationKind::all_reduce,
               .pass = Pass::backward_input,
               .bytes = bytes});
  }
}

void gather_tokens(LayerBuilder& layer, std::string_view name) {
  gather_rows(layer, name, layer.share().hidden);
}

void sum_tokens(LayerBuilder& layer, std::string_view name) {
  const DeviceShare& share = layer.share();
  if (share.setting.tensor_parallel == 1) return;
  const double bytes = share.tokens * share.hidden * share.element;
  if (share.setting.sequence_parallel) {
    layer.message(name, OperationKind::reduce_scatter, OperationKind::all_gather, PeerGroup::tensor,
                  bytes);
  } else {
    layer.add({.name = name, .kind = OperationKind::all_reduce, .bytes = bytes});
  }
}

void add_norm(LayerBuilder& layer, std::string_view name) {
  const DeviceShare& share = layer.share();
  const double bytes = share.spread_tokens * share.hidden * share.element;
  const std::size_t first = layer.operations();
  layer.traffic(name, 2 * bytes, 3 * bytes);
  if (share.transformer.latent) layer.rebuilds_since(first);
  layer.keep(name, bytes);
  const bool shifts = share.transformer.norm == Transformer::Norm::layer_norm;
  layer.weights((shifts ? 2 : 1) * share.hidden);
}

}  // namespace stagecraft
