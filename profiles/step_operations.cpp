// Operations of a layer that is described step by step. A step's peers share what its `Split` says;
// experts are spread as in `feed_forward_operations.cpp`. A step keeps what its backward reads: a
// product or norm its input unless it shares it with a step before, attention its queries, keys and
// values, an activation its input.

#include <algorithm>
#include <cmath>
#include <span>

#include "profiles/layer_builder.hpp"
#include "profiles/operations.hpp"
#include "profiles/transformer.hpp"

namespace stagecraft {

namespace {

RowCopies copies_of(const Step& step) {
  return {.count = static_cast<double>(step.active),
          .groups = {.count = step.groups, .active = step.active_groups}};
}

double rows_of(const Step& step, const DeviceShare& share) {
  if (step.rows > 0) return static_cast<double>(step.rows);
  return step.of_sample ? static_cast<double>(share.setting.microbatch) : share.tokens;
}

/// Of a width that tensor-parallel peers divide; with fewer whole units than peers each has a copy.
double part_of_width(std::int64_t width, std::int64_t units, int degree) {
  if (units == 0 || units % degree == 0) return std::ceil(static_cast<double>(width) / degree);
  return static_cast<double>(width) / static_cast<double>(units) *
         std::max(1.0, std::ceil(static_cast<double>(units) / degree));
}

/// A step's product on one device.
struct StepPart {
  double outputs = 0;
  double inputs = 0;
};

StepPart part_of_step(const Step& step, int degree) {
  StepPart part{static_cast<double>(step.outputs), static_cast<double>(step.inputs)};
  if (step.split == Split::outputs) part.outputs = part_of_width(step.outputs, step.units, degree);
  if (step.split == Split::inputs) part.inputs = part_of_width(step.inputs, step.units, degree);
  return part;
}

/// Biases of experts, weighted as their outputs are: of each expert's rows, Megatron-LM multiplies
/// the bias with the weights and adds it, by PyTorch's operations, and puts all rows together
/// (`TEGroupedMLP._apply_bias`); in backward weights and bias each have a product and a sum, and
/// the rows' gradients are put together, too. Twice six passes over the rows, and two.
void add_expert_biases(LayerBuilder& layer, double experts, double elements) {
  const DeviceShare& share = layer.share();
  const std::size_t first = layer.operations();
  layer.traffic("expert biases", 6 * elements * share.element, 8 * elements * share.element);
  layer.parts_since(first, experts, 2, 5);
}

void add_expert_product(LayerBuilder& layer, const Step& step) {
  const DeviceShare& share = layer.share();
  const double local = static_cast<double>(step.copies) / share.setting.expert_parallel;
  const StepPart part = part_of_step(step, share.expert_tensor);
  const std::size_t first = layer.operations();
  const double rows = routed_rows(share, static_cast<double>(step.active)).computed;
  const double met =
      experts_met(share, static_cast<double>(step.copies), static_cast<double>(step.active), rows);
  layer.grouped_linear(step.name, met, rows, part.outputs, part.inputs);
  if (!share.setting.grouped_experts) layer.repeated_since(first, local);
  // Where a step divides its outputs, the product adds the bias itself.
  const bool is_apart = step.bias && step.split == Split::inputs;
  if (is_apart && share.setting.framework == Framework::megatron)
    add_expert_biases(layer, met, rows * part.outputs);
  layer.weights(local * part.outputs * (part.inputs + (step.bias ? 1 : 0)), true);
}

/// What chooses experts stays in 16 bits where other products are in 8 (DeepSeek-V3,
/// section 3.3.1).
bool is_wide(const Step& step) {
  return step.name == "router" || step.name == "shared expert gate";
}

/// Those of experts lie where experts do.
void add_step_numbers(LayerBuilder& layer, const Step& step) {
  const DeviceShare& share = layer.share();
  const int parts = share.setting.expert_parallel * share.expert_tensor;
  const auto all = static_cast<double>(step.outputs);
  layer.weights(step.of_experts ? std::ceil(all / parts) : all, step.of_experts);
}

/// A product of this device, and `beside`: those of the same input that are one with it.
void add_step_product(LayerBuilder& layer, const Step& step, std::span<const Step> beside) {
  const DeviceShare& share = layer.share();
  if (step.of_experts) return add_expert_product(layer, step);
  StepPart part = part_of_step(step, share.setting.tensor_parallel);
  const double rows = rows_of(step, share);
  const bool divides_inputs = step.split == Split::inputs;
  if (!step.shares_input) {
    const double kept =
        divides_inputs || step.of_sample || step.rows > 0 ? rows : share.spread_tokens;
    layer.keep(step.name, kept * part.inputs * share.element);
    if (step.split == Split::outputs && !step.of_sample && step.rows == 0)
      gather_rows(layer, step.name, part.inputs);
  }
  if (step.rows == 0 || !step.tied)
    layer.weights(part.outputs * (part.inputs + (step.bias ? 1 : 0)));
  for (const Step& each : beside) {
    const StepPart other = part_of_step(each, share.setting.tensor_parallel);
    layer.weights(other.outputs * (other.inputs + (each.bias ? 1 : 0)));
    part.outputs += other.outputs;
  }
  const std::string_view name = beside.empty() ? step.name : "query key value";
  if (is_wide(step)) {
    layer.wide_linear(name, rows, part.outputs, part.inputs);
  } else {
    layer.linear(name, rows, part.outputs, part.inputs);
  }
  if (divides_inputs && !step.of_sample) sum_tokens(layer, step.name);
}

/// How many steps after the first Megatron-LM multiplies with it: keys and values of the queries'
/// input (`linear_qkv`; gpt_layer_specs.py).
std::size_t steps_beside(std::span<const Step> steps, const WorkSetting& setting) {
  const Step& first = steps.front();
  if (first.name != "query" || setting.framework != Framework::megatron) return 0;
  std::size_t count = 0;
  for (const Step& step : steps.subspan(1)) {
    const bool is_one = (step.name == "key" || step.name == "value") && step.shares_input &&
                        step.inputs == first.inputs && step.split == first.split;
    if (!is_one) break;
    ++count;
  }
  return count;
}

void add_step_norm(LayerBuilder& layer, const Step& step) {
  const DeviceShare& share = layer.share();
  const bool divides = step.split == Split::outputs;
  const double width = divides
                           ? part_of_width(step.inputs, step.units, share.setting.tensor_parallel)
                           : static_cast<double>(step.inputs);
  const double bytes = (divides ? share.tokens : share.spread_tokens) * width * share.element;
  layer.traffic(step.name, 2 * bytes, 3 * bytes);
  if (!step.shares_input) layer.keep(step.name, bytes);
  layer.weights(static_cast<double>(step.outputs));
}

/// Scores of queries that are kept anyway and the rows of a table, which are written, read at each
/// pair's distance, and added to the scores of the tokens (He et al. 2020, section 3.1).
void add_scores_of_table(LayerBuilder& layer, const Step& step) {
  const DeviceShare& share = layer.share();
  const double heads = std::ceil(static_cast<double>(step.heads) / share.setting.tensor_parallel);
  const auto width = static_cast<double>(step.score_width);
  const auto rows = static_cast<double>(step.rows);
  const double batch = static_cast<double>(share.setting.microbatch) * heads;
  const double queries = share.tokens * heads / batch;
  const std::size_t first = layer.operations();
  layer.activation_product(step.name, batch, queries, rows, width);
  const double pairs = share.tokens * heads * static_cast<double>(share.setting.sequence);
  layer.traffic(step.name, 3 * pairs * share.element, 2 * pairs * share.element, true);
  layer.one_module_since(first);
  // A table that all heads share is a parameter, and queries of it are nobody else's.
  const bool shared = step.outputs > 0;
  layer.keep("position keys", (shared ? share.tokens : rows) * heads * width * share.element);
  layer.working(share.tokens * heads * rows * share.element);
  layer.weights(static_cast<double>(step.outputs));
}

void add_step_attention(LayerBuilder& layer, const Step& step) {
  if (step.rows > 0) return add_scores_of_table(layer, step);
  const DeviceShare& share = layer.share();
  const int degree = share.setting.tensor_parallel;
  const AttentionCore core{
      .score = static_cast<double>(step.score_width),
      .value = static_cast<double>(step.value_width),
      .heads = std::ceil(static_cast<double>(step.heads) / degree),
      .key_value_heads = std::max(1.0, static_cast<double>(step.key_value_heads) / degree),
      .window = static_cast<double>(step.window),
      .stride = static_cast<double>(step.stride),
      .causal = step.causal,
      .rebuilt = true};
  const double queries = share.tokens * core.heads * core.score;
  const double keys = share.tokens / core.stride * core.key_value_heads * (core.score + core.value);
  layer.keep("queries, keys and values", (queries + keys) * share.element);
  add_attention_core(layer, core);
  layer.weights(std::ceil(static_cast<double>(step.outputs) / degree));
}

/// Chunks of the sequence are products of activations, between which the state is handed on; what
/// is kept are the inputs and a state for each chunk (Dao and Gu 2024, section 6).
void add_recurrence(LayerBuilder& layer, const Step& step) {
  constexpr double chunk = 64;
  const DeviceShare& share = layer.share();
  const double heads = std::ceil(static_cast<double>(step.heads) / share.setting.tensor_parallel);
  const auto rows = static_cast<double>(step.inputs);
  const auto columns = static_cast<double>(step.outputs);
  const double moved = share.tokens * heads * (2 * rows + 2 * columns) * share.element;
  Operation scan{.name = step.name,
                 .kind = OperationKind::product,
                 .batch = static_cast<double>(share.setting.microbatch) * heads,
                 .m = static_cast<double>(share.setting.sequence),
                 .n = columns,
                 .k = rows,
                 .flops = 6 * share.tokens * heads * rows * columns,
                 .bytes = moved,
                 .core_attention = true};
  layer.add(scan);
  scan.pass = Pass::backward_input;
  scan.flops *= 2;
  scan.bytes *= 2;
  layer.add(scan);
  layer.keep("queries, keys and values", moved);
  layer.keep("states", share.tokens / chunk * heads * rows * columns * 4, true);
}

void add_convolution(LayerBuilder& layer, const Step& step) {
  const DeviceShare& share = layer.share();
  const double channels = part_of_width(step.inputs, 0, share.setting.tensor_parallel);
  const double bytes = share.tokens * channels * share.element;
  const auto kernel = static_cast<double>(step.outputs);
  layer.add({.name = step.name, .flops = 2 * share.tokens * channels * kernel, .bytes = 2 * bytes});
  layer.add({.name = step.name,
             .pass = Pass::backward_input,
             .flops = 2 * share.tokens * channels * kernel,
             .bytes = 2 * bytes});
  layer.add({.name = step.name,
             .pass = Pass::backward_weight,
             .flops = 2 * share.tokens * channels * kernel,
             .bytes = 2 * bytes});
  layer.keep(step.name, bytes);
  layer.weights(channels * (kernel + (step.bias ? 1 : 0)));
}

void add_step_activation(LayerBuilder& layer, const Step& step) {
  const DeviceShare& share = layer.share();
  const bool routed = step.of_experts;
  const int degree = routed ? share.expert_tensor : share.setting.tensor_parallel;
  const int divisor = step.split == Split::none ? 1 : degree;
  const double rows =
      routed ? routed_rows(share, static_cast<double>(step.active)).computed : rows_of(step, share);
  const double in = std::ceil(static_cast<double>(step.inputs) / divisor);
  const double out = std::ceil(static_cast<double>(step.outputs) / divisor);
  layer.traffic(step.name, rows * (in + out) * share.element,
                rows * (2 * in + out) * share.element);
  if (!step.shares_input) layer.keep("activation input", rows * in * share.element);
  if (routed) layer.keep("activation", rows * out * share.element);
  layer.working(rows * (in + out) * share.element);
}

void add_step_lookup(LayerBuilder& layer, const Step& step) {
  const DeviceShare& share = layer.share();
  const auto width = static_cast<double>(step.outputs);
  const double elements = share.tokens * width;
  layer.traffic("lookup", 2 * elements * share.element, 3 * elements * share.element);
  const bool divides = step.split == Split::inputs;
  const double rows = divides ? part_of_width(step.inputs, 0, share.setting.tensor_parallel)
                              : static_cast<double>(step.inputs);
  layer.weights(rows * width);
  if (divides) sum_tokens(layer, "sum of embeddings");
}

void add_step_logits(LayerBuilder& layer, const Step& step) {
  const DeviceShare& share = layer.share();
  add_logits_and_loss(layer, rows_of(step, share), step.outputs);
  const double part = part_of_width(step.outputs, 0, share.setting.tensor_parallel);
  layer.weights(part * (static_cast<double>(step.inputs) + (step.bias ? 1 : 0)));
}

void add_step(LayerBuilder& layer, const Step& step) {
  switch (step.kind) {
    case StepKind::norm: return add_step_norm(layer, step);
    case StepKind::product: return add_step_product(layer, step, {});
    case StepKind::lookup: return add_step_lookup(layer, step);
    case StepKind::attention: return add_step_attention(layer, step);
    case StepKind::recurrence: return add_recurrence(layer, step);
    case StepKind::convolution: return add_convolution(layer, step);
    case StepKind::activation:
      if (step.copies > 1 && step.name == "choice of experts")
        return add_choice(layer, static_cast<double>(step.copies));
      return add_step_activation(layer, step);
    case StepKind::numbers: return add_step_numbers(layer, step);
    case StepKind::dispatch:
      return add_dispatch(layer, copies_of(step), static_cast<double>(step.inputs));
    case StepKind::combine:
      return add_combine(layer, copies_of(step), static_cast<double>(step.inputs));
    case StepKind::logits: return add_step_logits(layer, step);
  }
}

}  // namespace

LayerOperations layer_operations(const Transformer& transformer, const Layer& of,
                                 const WorkSetting& setting) {
  if (of.steps.empty()) return layer_operations(transformer, of.kind, setting);
  const DeviceShare share(transformer, setting);
  LayerBuilder layer(share);
  const double streams = static_cast<double>(transformer.streams);
  layer.input(of.kind == LayerKind::embedding
                  ? 8 * share.tokens
                  : share.spread_tokens * share.hidden * streams * share.element);
  for (std::span<const Step> left(of.steps); !left.empty();) {
    const std::size_t beside = steps_beside(left, setting);
    if (beside > 0) {
      add_step_product(layer, left.front(), left.subspan(1, beside));
    } else {
      add_step(layer, left.front());
    }
    left = left.subspan(1 + beside);
  }
  return layer.take();
}

}  // namespace stagecraft
