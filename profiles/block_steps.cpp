#include "profiles/block_steps.hpp"

#include <algorithm>

namespace stagecraft {

void add_steps(Steps& steps, const Steps& more) {
  steps.insert(steps.end(), more.begin(), more.end());
}

Step norm(std::string_view name, std::int64_t width, NormWeights weights) {
  return {.kind = StepKind::norm,
          .name = name,
          .outputs = static_cast<std::int64_t>(weights) * width,
          .inputs = width};
}

Step product(std::string_view name, std::int64_t outputs, std::int64_t inputs, bool bias) {
  return {
      .kind = StepKind::product, .name = name, .outputs = outputs, .inputs = inputs, .bias = bias};
}

Step divided(std::string_view name, std::int64_t outputs, std::int64_t inputs, bool bias,
             std::int64_t units) {
  Step step = product(name, outputs, inputs, bias);
  step.split = Split::outputs;
  step.units = units;
  return step;
}

Step summed(std::string_view name, std::int64_t outputs, std::int64_t inputs, bool bias) {
  Step step = product(name, outputs, inputs, bias);
  step.split = Split::inputs;
  return step;
}

Step numbers(std::string_view name, std::int64_t count) {
  return {.kind = StepKind::numbers, .name = name, .outputs = count};
}

Step beside(Step step) {
  step.shares_input = true;
  return step;
}

namespace {

Step elementwise(std::string_view name, std::int64_t outputs, std::int64_t inputs) {
  return {.kind = StepKind::activation,
          .name = name,
          .outputs = outputs,
          .inputs = inputs,
          .split = Split::outputs};
}

/// Reads and writes what others keep.
Step turning(std::int64_t width) {
  return beside(elementwise("rotary positions", width, width));
}

/// Over all of a width that peers divide.
Step divided_norm(std::string_view name, NormWeights weights, std::int64_t width) {
  return {.kind = StepKind::norm,
          .name = name,
          .outputs = static_cast<std::int64_t>(weights) * width,
          .inputs = width,
          .split = Split::outputs};
}

Step head_norm(std::string_view name, QueryKeyNorm kind, NormWeights weights, std::int64_t heads,
               std::int64_t width) {
  const std::int64_t of = kind == QueryKeyNorm::shared ? width : heads * width;
  return {.kind = StepKind::norm,
          .name = name,
          .outputs = static_cast<std::int64_t>(weights) * of,
          .inputs = heads * width,
          .split = Split::outputs,
          .units = heads};
}

}  // namespace

Steps attention(const GroupedAttention& shape) {
  const std::int64_t value_width = shape.value_width > 0 ? shape.value_width : shape.width;
  const std::int64_t queries = shape.heads * shape.width;
  const std::int64_t keys = shape.key_value_heads * shape.width;
  const std::int64_t values = shape.key_value_heads * value_width;
  const std::int64_t output = shape.heads * value_width;
  Steps steps{divided("query", shape.gated ? 2 * queries : queries, shape.hidden, shape.query_bias,
                      shape.heads)};
  if (!shape.borrows_keys) {
    Step key = divided("key", keys, shape.hidden, shape.key_bias, shape.key_value_heads);
    steps.push_back(shape.crosses ? key : beside(key));
    if (!shape.value_is_key) {
      steps.push_back(
          beside(divided("value", values, shape.hidden, shape.value_bias, shape.key_value_heads)));
    }
  }
  const bool is_gated = shape.gated || shape.own_gate || shape.head_gate;
  const std::int64_t gate = shape.head_gate ? shape.heads : output;
  if (shape.own_gate || shape.head_gate)
    steps.push_back(beside(divided("attention gate", gate, shape.hidden, false, shape.heads)));
  if (shape.norms != QueryKeyNorm::none) {
    steps.push_back(
        head_norm("query norm", shape.norms, shape.norm_weights, shape.heads, shape.width));
    if (!shape.borrows_keys) {
      steps.push_back(head_norm("key norm", shape.norms, shape.norm_weights, shape.key_value_heads,
                                shape.width));
    }
  }
  if (shape.rotary_width > 0) {
    const std::int64_t turned =
        shape.borrows_keys ? shape.heads : shape.heads + shape.key_value_heads;
    steps.push_back(turning(turned * shape.rotary_width));
  }
  steps.push_back({.kind = StepKind::attention,
                   .name = shape.crosses ? "cross attention" : "attention",
                   .outputs = shape.sinks ? shape.heads : 0,
                   .heads = shape.heads,
                   .key_value_heads = shape.key_value_heads,
                   .score_width = shape.width,
                   .value_width = value_width,
                   .window = shape.window,
                   .causal = shape.causal && !shape.crosses});
  if (shape.differential) {
    // The library computes the same scores for each half of the values.
    const Step again = steps.back();
    steps.push_back(again);
    steps.push_back(numbers("multipliers", 4 * shape.width));
    steps.push_back(divided_norm("output norm", NormWeights::none, output));
  }
  if (shape.output_norm)
    steps.push_back(divided_norm("output norm", shape.output_norm_weights, output));
  if (is_gated) steps.push_back(elementwise("attention gate", output, output + gate));
  steps.push_back(beside(summed("attention output", shape.hidden, output, shape.output_bias)));
  return steps;
}

namespace {

/// Queries come from the latent, keys of one head and its weights from the hidden state.
Steps indexer_steps(const LatentShape& shape) {
  const Indexer& indexer = shape.indexer;
  const std::int64_t latent = shape.query_rank > 0 ? shape.query_rank : shape.hidden;
  Steps steps;
  if (shape.scaled_scores)
    steps.push_back(norm("indexer norm", latent, NormWeights::weight_and_bias));
  add_steps(steps,
            {divided("indexer query", indexer.heads * indexer.width, latent, false, indexer.heads),
             product("indexer key", indexer.width, shape.hidden)});
  if (indexer.pool > 0) {
    steps.push_back(beside(product("indexer key", indexer.width, shape.hidden)));
    steps.push_back(numbers("indexer key", indexer.pool * indexer.width));
  }
  steps.push_back(norm("indexer norm", indexer.width, NormWeights::weight_and_bias));
  steps.push_back(beside(product("indexer weights", indexer.heads, shape.hidden)));
  if (shape.scaled_scores) steps.push_back(numbers("multipliers", 2 * indexer.heads));
  steps.push_back({.kind = StepKind::attention,
                   .name = "indexer",
                   .heads = indexer.heads,
                   .key_value_heads = 1,
                   .score_width = indexer.width,
                   .stride = std::max<std::int64_t>(indexer.pool, 1)});
  return steps;
}

}  // namespace

Steps latent_attention(const LatentShape& shape) {
  const std::int64_t width = shape.rotary_width + shape.plain_width;
  const std::int64_t queries = shape.heads * width;
  const std::int64_t values = shape.heads * shape.value_width;
  Steps steps;
  if (shape.query_rank > 0) {
    steps.push_back(product("query down", shape.query_rank, shape.hidden, shape.bias));
    steps.push_back(norm("query norm", shape.query_rank));
    const std::int64_t latents = shape.gated ? 2 * shape.query_rank : shape.query_rank;
    steps.push_back(
        divided("query up", shape.gated ? queries + values : queries, latents, false, shape.heads));
  } else {
    steps.push_back(divided("query", queries, shape.hidden, false, shape.heads));
  }
  if (!shape.borrows_keys) {
    steps.push_back(beside(product("key value down", shape.key_value_rank + shape.rotary_width,
                                   shape.hidden, shape.bias)));
  }
  const bool is_gated = shape.gated || shape.own_gate || shape.head_gate;
  const std::int64_t gate = shape.head_gate ? shape.heads : values;
  if (shape.own_gate || shape.head_gate)
    steps.push_back(beside(divided("attention gate", gate, shape.hidden, false, shape.heads)));
  if (!shape.borrows_keys) steps.push_back(norm("key norm", shape.key_value_rank));
  if (shape.rotary_norm) steps.push_back(norm("key norm", shape.rotary_width));
  steps.push_back(divided("key value up", shape.heads * (shape.plain_width + shape.value_width),
                          shape.key_value_rank, false, shape.heads));
  if (shape.rotary_width > 0) steps.push_back(turning(2 * queries));
  if (shape.scaled_scores) steps.push_back(numbers("multipliers", 2 * shape.heads));
  const bool chooses = shape.indexer.heads > 0;
  if (chooses && shape.indexer.computes) add_steps(steps, indexer_steps(shape));
  steps.push_back({.kind = StepKind::attention,
                   .name = "attention",
                   .outputs = shape.sinks ? shape.heads : 0,
                   .heads = shape.heads,
                   .key_value_heads = shape.heads,
                   .score_width = width,
                   .value_width = shape.value_width,
                   .window = chooses ? shape.indexer.keys : shape.window});
  if (is_gated) steps.push_back(elementwise("attention gate", values, values + gate));
  steps.push_back(beside(summed("attention output", shape.hidden, values, shape.bias)));
  return steps;
}

Steps feed_forward(const FeedForwardShape& shape) {
  const std::int64_t up = shape.gated ? 2 * shape.inner : shape.inner;
  Steps steps{divided("up", up, shape.hidden, shape.up_bias),
              elementwise("activation", shape.inner, up)};
  if (shape.normed) steps.push_back(divided_norm("output norm", NormWeights::weight, shape.inner));
  steps.push_back(summed("down", shape.hidden, shape.inner, shape.down_bias));
  return steps;
}

namespace {

Step of_experts(Step step, std::int64_t copies, std::int64_t active) {
  step.copies = copies;
  step.active = active;
  step.of_experts = true;
  return step;
}

/// Scores of the `known` experts.
Steps router(const MixtureShape& shape, std::int64_t known) {
  const std::int64_t width = shape.router_width;
  if (width == 0) return {product("router", known, shape.hidden, shape.router_bias)};
  return {product("router", width, shape.hidden, true), norm("state norm", width),
          product("router", width, width, true), product("router", width, width, true),
          product("router", known, width)};
}

}  // namespace

Steps mixture(const MixtureShape& shape) {
  const std::int64_t known = shape.experts + shape.idle_experts;
  const std::int64_t width = shape.latent > 0 ? shape.latent : shape.hidden;
  const std::int64_t up = shape.gated ? 2 * shape.inner : shape.inner;
  Steps steps = router(shape, known);
  Step choice{.kind = StepKind::activation, .name = "choice of experts"};
  choice.copies = known;
  steps.push_back(choice);
  if (shape.trained_scores > 0) steps.push_back(numbers("router bias", shape.trained_scores));
  if (shape.shared_inner > 0) {
    add_steps(steps, feed_forward({.hidden = shape.hidden,
                                   .inner = shape.shared_inner,
                                   .gated = shape.gated,
                                   .up_bias = shape.shared_bias,
                                   .down_bias = shape.shared_bias}));
  }
  if (shape.shared_gate) steps.push_back(beside(product("shared expert gate", 1, shape.hidden)));
  if (shape.latent > 0)
    steps.push_back(beside(product("latent down", width, shape.hidden, shape.latent_bias)));
  Step exchange{.kind = StepKind::dispatch, .name = "dispatch", .inputs = width};
  exchange.copies = shape.experts;
  exchange.active = shape.active;
  exchange.groups = shape.groups.count;
  exchange.active_groups = shape.groups.active;
  steps.push_back(exchange);
  // The library keeps weights up for LongCat's idle experts, too, which none of them reads.
  if (shape.stores_idle && shape.idle_experts > 0)
    steps.push_back(numbers("expert scales", shape.idle_experts * up * width));
  steps.push_back(of_experts(beside(divided("expert up", up, width, shape.expert_bias)),
                             shape.experts, shape.active));
  steps.push_back(
      of_experts(elementwise("expert activation", shape.inner, up), shape.experts, shape.active));
  steps.push_back(of_experts(beside(summed("expert down", width, shape.inner, shape.expert_bias)),
                             shape.experts, shape.active));
  exchange.kind = StepKind::combine;
  exchange.name = "combine";
  steps.push_back(exchange);
  if (shape.latent > 0)
    steps.push_back(product("latent up", shape.hidden, width, shape.latent_bias));
  return steps;
}

namespace {

Step convolved(std::string_view name, std::int64_t channels, std::int64_t kernel, bool bias) {
  return {.kind = StepKind::convolution,
          .name = name,
          .outputs = kernel,
          .inputs = channels,
          .bias = bias,
          .split = Split::outputs};
}

Step recurrent(std::string_view name, std::int64_t heads, std::int64_t rows, std::int64_t columns) {
  return {.kind = StepKind::recurrence,
          .name = name,
          .outputs = columns,
          .inputs = rows,
          .heads = heads};
}

Step mixer_norm(std::int64_t trainable, std::int64_t width) {
  return {.kind = StepKind::norm,
          .name = "mixer norm",
          .outputs = trainable,
          .inputs = width,
          .split = Split::outputs};
}

}  // namespace

Steps mamba2(const Mamba2Shape& shape) {
  const std::int64_t states = 2 * shape.groups * shape.state;
  const std::int64_t width = shape.inner / shape.heads;
  Steps steps{
      divided("mixer input", 2 * shape.inner + states + shape.heads, shape.hidden,
              shape.input_bias),
      convolved("mixer convolution", shape.inner + states, shape.kernel, shape.convolution_bias),
      // For each head the step's bias, the decay and what passes by.
      numbers("mixer numbers", 3 * shape.heads),
      recurrent("mamba", shape.heads, shape.state, width)};
  steps.push_back(elementwise("mixer gate", shape.inner, 2 * shape.inner));
  if (shape.normed) steps.push_back(mixer_norm(shape.inner, shape.inner));
  steps.push_back(summed("mixer output", shape.hidden, shape.inner, shape.output_bias));
  return steps;
}

Steps mamba(const MambaShape& shape) {
  const std::int64_t small = shape.rank + 2 * shape.state;
  Steps steps{divided("mixer input", 2 * shape.inner, shape.hidden, shape.bias),
              convolved("mixer convolution", shape.inner, shape.kernel, shape.convolution_bias),
              summed("step size", small, shape.inner)};
  if (shape.normed) steps.push_back(norm("mixer norm", small, shape.norm_weights));
  add_steps(steps, {divided("step size", shape.inner, shape.rank, true),
                    numbers("mixer numbers", shape.inner * shape.state + shape.inner),
                    recurrent("mamba", shape.inner, shape.state, 1),
                    elementwise("mixer gate", shape.inner, 2 * shape.inner),
                    summed("mixer output", shape.hidden, shape.inner, shape.bias)});
  return steps;
}

Steps gated_delta(const DeltaShape& shape) {
  const std::int64_t keys = shape.key_heads * shape.key_width;
  const std::int64_t values = shape.value_heads * shape.value_width;
  return {divided("mixer input", 2 * keys + 2 * values, shape.hidden),
          beside(divided("step size", 2 * shape.value_heads, shape.hidden)),
          convolved("mixer convolution", 2 * keys + values, shape.kernel, false),
          numbers("mixer numbers", 2 * shape.value_heads),
          recurrent("gated delta rule", shape.value_heads, shape.key_width, shape.value_width),
          mixer_norm(shape.value_width, values),
          elementwise("mixer gate", values, 2 * values),
          summed("mixer output", shape.hidden, values)};
}

Steps kimi_delta(const KimiDeltaShape& shape) {
  const std::int64_t all = shape.heads * shape.width;
  const auto whole = [&](std::string_view name) {
    return divided(name, all, shape.hidden, false, shape.heads);
  };
  const auto low = [&](std::string_view name) { return product(name, shape.width, shape.hidden); };
  const auto high = [&](std::string_view name) {
    return divided(name, all, shape.width, false, shape.heads);
  };
  Steps steps{whole("query"), beside(whole("key")), beside(whole("value")),
              convolved("mixer convolution", 3 * all, shape.kernel, false)};
  if (shape.low_ranks) {
    add_steps(steps, {beside(low("step size")), high("step size")});
  } else {
    steps.push_back(beside(whole("step size")));
  }
  steps.push_back(numbers("mixer numbers", all + shape.heads));
  steps.push_back(beside(divided("step size", shape.heads, shape.hidden)));
  if (shape.low_ranks) {
    add_steps(steps, {beside(low("output down")), high("output up")});
  } else {
    steps.push_back(beside(whole("mixer gate")));
  }
  add_steps(steps, {recurrent("gated delta rule", shape.heads, shape.width, shape.width),
                    mixer_norm(shape.width, all), elementwise("mixer gate", all, 2 * all),
                    summed("mixer output", shape.hidden, all)});
  return steps;
}

Steps hyper_connections(std::int64_t hidden, std::int64_t streams, bool mix) {
  const std::int64_t outputs = 2 * streams + (mix ? streams * streams : 0);
  return {product("hyper-connections", outputs, streams * hidden),
          numbers("hyper-connections", outputs + (mix ? 3 : 2))};
}

Steps joined_streams(std::int64_t hidden, std::int64_t streams) {
  return {product("hyper-connections", streams, streams * hidden),
          numbers("hyper-connections", streams + 1)};
}

Steps griffin(const GriffinShape& shape) {
  const std::int64_t width = shape.width;
  return {divided("mixer input", 2 * width, shape.hidden, true),
          convolved("mixer convolution", width, shape.kernel, true),
          // Two gates, each of a matrix for each head's part of the width.
          beside(divided("step size", 2 * width, width / shape.heads, true, shape.heads)),
          numbers("mixer numbers", width), recurrent("linear recurrence", width, 1, 1),
          elementwise("mixer gate", width, 2 * width),
          summed("mixer output", shape.hidden, width, true)};
}

Steps short_convolution(std::int64_t hidden, std::int64_t kernel, bool bias) {
  return {divided("mixer input", 3 * hidden, hidden, bias),
          convolved("short convolution", hidden, kernel, bias),
          elementwise("mixer gate", hidden, 3 * hidden),
          summed("mixer output", hidden, hidden, bias)};
}

}  // namespace stagecraft
