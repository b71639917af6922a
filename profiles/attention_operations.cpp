// Attention: grouped-query, and DeepSeek's latent one; in one kernel, or with scores in memory.
// Kept tensors are those of Korthikanti et al. 2022: queries, keys and values, the softmax's and
// the dropout's outputs with its mask (only where scores are in memory), the weighted sum.

#include <algorithm>

#include "profiles/layer_builder.hpp"

namespace stagecraft {

namespace {

/// Of the attention: cheap to have again where its inputs are kept, as they are unless projections
/// from latents are what is done again.
void keep_result(LayerBuilder& layer, const AttentionCore& core, std::string_view name,
                 double bytes) {
  if (core.rebuilt) {
    layer.keep_or_rebuild(name, bytes);
  } else {
    layer.keep(name, bytes);
  }
}

/// Keys that a token sees, on average. A causal mask leaves half of all (context-parallel peers
/// take turns at both ends), and of a window what the first tokens lack.
double keys_of_a_token(const AttentionCore& core, double whole) {
  const double keys = whole / core.stride;
  const double most = core.window > 0 ? std::min(core.window, keys) : keys;
  return core.causal ? most * (1 - most / (2 * keys)) : most;
}

/// What kernels in 8 bits read is rounded before: queries, keys and values, and in backward the
/// gradient of the weighted sum, two bytes read and one written (Transformer Engine's
/// FusedAttnFunc; results are in 16 bits).
void add_casts(LayerBuilder& layer, const AttentionCore& shape) {
  constexpr double moved = 3;
  const double tokens = layer.share().tokens;
  const double keys = tokens / shape.stride * shape.key_value_heads * (shape.score + shape.value);
  Operation cast{.name = "cast of attention inputs",
                 .bytes = moved * (tokens * shape.heads * shape.score + keys),
                 .core_attention = true,
                 .rebuilds = shape.rebuilt,
                 .modules = 0};
  layer.add(cast);
  cast.name = "cast of attention gradients";
  cast.rebuilds = false;
  cast.pass = Pass::backward_input;
  cast.bytes = moved * tokens * shape.heads * shape.value;
  layer.add(cast);
}

void add_fused_core(LayerBuilder& layer, const AttentionCore& shape) {
  const DeviceShare& share = layer.share();
  const auto whole = static_cast<double>(share.setting.sequence);
  const double scores = share.tokens * keys_of_a_token(shape, whole) * shape.heads;
  const double rows = share.tokens * shape.heads;
  Operation core{.name = "attention",
                 .kind = OperationKind::attention,
                 .batch = static_cast<double>(share.setting.microbatch) * shape.heads,
                 .m = shape.window > 0 ? std::min(shape.window, whole) : whole,
                 .n = shape.score,
                 .k = whole,
                 .flops = 2 * scores * (shape.score + shape.value),
                 .bytes = 2 * rows * (shape.score + shape.value) * share.element,
                 .core_attention = true,
                 .narrow = share.setting.precision == Precision::float8_with_attention,
                 .flash2 = share.setting.framework == Framework::torch};
  if (core.narrow) add_casts(layer, shape);
  core.rebuilds = shape.rebuilt;
  layer.add(core);
  core.rebuilds = false;
  core.pass = Pass::backward_input;
  // Scores again, then gradients of scores, values, queries and keys.
  core.flops = 2 * scores * (3 * shape.score + 2 * shape.value);
  core.bytes *= 2;
  layer.add(core);
  keep_result(layer, shape, "attention statistics", 4 * rows);
}

void add_unfused_core(LayerBuilder& layer, const AttentionCore& shape) {
  const DeviceShare& share = layer.share();
  const auto whole = static_cast<double>(share.setting.sequence);
  const double batch = static_cast<double>(share.setting.microbatch) * shape.heads;
  const double rows = whole / share.setting.context_parallel;
  const double scores = batch * rows * whole;
  const std::size_t first = layer.operations();
  layer.activation_product("scores", batch, rows, whole, shape.score);
  layer.traffic("softmax", 2 * scores * share.element, 3 * scores * share.element, true);
  if (share.setting.dropout) {
    const double moved = scores * (2 * share.element + 1);
    layer.traffic("attention dropout", moved, moved, true);
    layer.keep("attention mask", scores, true);
    layer.keep("attention dropout", scores * share.element, true);
  }
  layer.activation_product("weighted sum", batch, rows, shape.value, whole);
  layer.one_module_since(first);
  layer.keep("softmax", scores * share.element, true);
  layer.working(scores * share.element);
}

}  // namespace

void add_attention_core(LayerBuilder& layer, const AttentionCore& shape) {
  const DeviceShare& share = layer.share();
  if (share.setting.context_parallel > 1) {
    const double bytes = share.tokens * shape.key_value_heads * (shape.score + shape.value) *
                         share.element * share.setting.context_parallel;
    Operation exchange{.name = "context exchange",
                       .kind = OperationKind::ring_exchange,
                       .bytes = bytes,
                       .group = PeerGroup::context};
    layer.add(exchange);
    // Backward: keys and values once more, and their gradients.
    exchange.pass = Pass::backward_input;
    exchange.bytes *= 2;
    layer.add(exchange);
  }
  if (share.setting.fused_attention) {
    add_fused_core(layer, shape);
  } else {
    add_unfused_core(layer, shape);
  }
  keep_result(layer, shape, "weighted sum",
              share.tokens * shape.heads * shape.value * share.element);
}

namespace {

/// The projection of the weighted sum, and what joins it to the block's input.
void add_output(LayerBuilder& layer, double width) {
  const DeviceShare& share = layer.share();
  layer.linear("attention output", share.tokens, share.hidden, width);
  layer.weights(share.hidden * width + (share.transformer.output_bias ? share.hidden : 0));
  sum_tokens(layer, "sum of attention outputs");
}

}  // namespace

void add_attention(LayerBuilder& layer) {
  const DeviceShare& share = layer.share();
  const auto width = static_cast<double>(share.transformer.head_width);
  const double queries = share.heads * width;
  const double keys = share.key_value_heads * width;
  const double outputs = queries + 2 * keys;
  const double tokens = share.tokens;
  layer.keep("attention input", share.spread_tokens * share.hidden * share.element);
  gather_tokens(layer, "gather of attention inputs");
  layer.linear("query key value", tokens, outputs, share.hidden);
  layer.weights(outputs * share.hidden + (share.transformer.attention_bias ? outputs : 0));
  layer.keep("queries, keys and values", tokens * outputs * share.element);
  if (share.transformer.position == Transformer::Position::rotary) {
    const double moved = 2 * tokens * (queries + keys) * share.element;
    layer.traffic("rotary positions", moved, moved);
  }
  add_attention_core(layer, {.score = width,
                             .value = width,
                             .heads = share.heads,
                             .key_value_heads = share.key_value_heads,
                             .causal = share.transformer.causal,
                             .rebuilt = true});
  add_output(layer, queries);
}

void add_latent_attention(LayerBuilder& layer) {
  const DeviceShare& share = layer.share();
  const LatentAttention& latent = *share.transformer.latent;
  const double tokens = share.tokens;
  const double element = share.element;
  const auto key = static_cast<double>(share.transformer.head_width);
  const auto value = static_cast<double>(latent.value_width);
  const auto rank = static_cast<double>(latent.key_value_rank);
  const double queries = share.heads * key;
  const double latents = rank + static_cast<double>(latent.rotary_width);
  const double keys_values = share.heads * (static_cast<double>(latent.plain_width) + value);
  layer.keep_or_rebuild("attention input", share.spread_tokens * share.hidden * element);
  gather_tokens(layer, "gather of attention inputs");
  if (latent.query_rank > 0) {
    const auto down = static_cast<double>(latent.query_rank);
    layer.linear("query down", tokens, down, share.hidden);
    const std::size_t first = layer.operations();
    layer.traffic("query norm", 2 * tokens * down * element, 3 * tokens * down * element);
    layer.linear("query up", tokens, queries, down);
    layer.rebuilds_since(first);
    layer.weights(down * (share.hidden + queries) + down);
    layer.keep("query latents", tokens * down * element);
    layer.keep_or_rebuild("normalised query latents", tokens * down * element);
  } else {
    const std::size_t first = layer.operations();
    layer.linear("query", tokens, queries, share.hidden);
    layer.rebuilds_since(first);
    layer.weights(queries * share.hidden);
  }
  layer.linear("key value down", tokens, latents, share.hidden);
  const std::size_t first = layer.operations();
  layer.traffic("key value norm", 2 * tokens * rank * element, 3 * tokens * rank * element);
  layer.linear("key value up", tokens, keys_values, rank);
  layer.weights(latents * share.hidden + rank + keys_values * rank);
  layer.keep("key value latents", tokens * latents * element);
  layer.keep_or_rebuild("normalised key value latents", tokens * rank * element);
  // Keys are put together from their parts: queries, keys and values of all heads are written.
  const double moved = 2 * tokens * (2 * queries + share.heads * value) * element;
  layer.traffic("rotary positions", moved, moved);
  layer.rebuilds_since(first);
  layer.keep_or_rebuild("queries, keys and values",
                        tokens * (2 * queries + share.heads * value) * element);
  add_attention_core(layer, {.score = key,
                             .value = value,
                             .heads = share.heads,
                             .key_value_heads = share.key_value_heads,
                             .causal = share.transformer.causal});
  add_output(layer, share.heads * value);
}

}  // namespace stagecraft
