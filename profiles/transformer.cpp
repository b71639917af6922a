#include "profiles/transformer.hpp"

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

using Norm = Transformer::Norm;
using FeedForward = Transformer::FeedForward;
using Position = Transformer::Position;

void expect_range(std::string_view what, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return;
  fail("transformer: ", what, " must be from 1 to ", most, ", found ", value);
}

std::int64_t norm_parameters(const Transformer& transformer) {
  return transformer.norm == Norm::layer_norm ? 2 * transformer.hidden : transformer.hidden;
}

/// Widths of all queries, and of all keys (or values).
std::int64_t query_width(const Transformer& transformer) {
  return transformer.heads * transformer.head_width;
}
std::int64_t key_value_width(const Transformer& transformer) {
  return transformer.key_value_heads * transformer.head_width;
}

/// Patches are projected; a class token and a position for each follow.
std::int64_t patch_embedding_parameters(const Transformer& transformer) {
  const Patches& patches = *transformer.patches;
  const std::int64_t pixels = patches.patch * patches.patch * patches.channels;
  return (pixels + 1 + 1 + transformer.positions) * transformer.hidden;
}

std::int64_t embedding_parameters(const Transformer& transformer) {
  if (transformer.patches) return patch_embedding_parameters(transformer);
  std::int64_t rows = transformer.vocabulary;
  if (transformer.position == Position::learned) rows += transformer.positions;
  if (transformer.token_types) rows += 2;
  const bool has_norm = transformer.token_types || transformer.embedding_norm;
  const std::int64_t norm = has_norm ? norm_parameters(transformer) : 0;
  return rows * transformer.hidden + norm;
}

std::int64_t grouped_attention_matrices(const Transformer& transformer) {
  return (2 * query_width(transformer) + 2 * key_value_width(transformer)) * transformer.hidden;
}

std::int64_t latent_attention_matrices(const Transformer& transformer) {
  const LatentAttention& latent = *transformer.latent;
  const std::int64_t queries = query_width(transformer);
  const std::int64_t values = transformer.heads * latent.value_width;
  const std::int64_t query_path = latent.query_rank > 0
                                      ? (transformer.hidden + queries) * latent.query_rank
                                      : transformer.hidden * queries;
  return query_path + transformer.hidden * (latent.key_value_rank + latent.rotary_width) +
         latent.key_value_rank * (transformer.heads * latent.plain_width + values) +
         values * transformer.hidden;
}

std::int64_t attention_matrices(const Transformer& transformer) {
  return transformer.latent ? latent_attention_matrices(transformer)
                            : grouped_attention_matrices(transformer);
}

std::int64_t attention_parameters(const Transformer& transformer) {
  std::int64_t others = 0;
  if (transformer.latent) {  // the latents are normalised
    others += transformer.latent->query_rank + transformer.latent->key_value_rank;
  } else if (transformer.attention_bias) {
    others += query_width(transformer) + 2 * key_value_width(transformer);
  }
  if (transformer.output_bias) others += transformer.hidden;
  return attention_matrices(transformer) + others;
}

/// Weights of a feed-forward's matrices of this inner width.
std::int64_t feed_forward_matrices(const Transformer& transformer, std::int64_t inner) {
  return (projections_up(transformer) + 1) * inner * transformer.hidden;
}

std::int64_t dense_parameters(const Transformer& transformer) {
  const std::int64_t inner = transformer.feed_forward;
  const std::int64_t biases =
      transformer.feed_forward_bias ? projections_up(transformer) * inner + transformer.hidden : 0;
  return feed_forward_matrices(transformer, inner) + biases;
}

std::int64_t expert_parameters(const Transformer& transformer) {
  const Experts& experts = *transformer.experts;
  const std::int64_t inner = experts.count * experts.feed_forward + experts.shared_feed_forward;
  return feed_forward_matrices(transformer, inner) + experts.count * transformer.hidden;
}

std::int64_t block_parameters(const Transformer& transformer, LayerKind kind) {
  return attention_parameters(transformer) + 2 * norm_parameters(transformer) +
         (kind == LayerKind::transformer ? dense_parameters(transformer)
                                         : expert_parameters(transformer));
}

/// The block a prediction module holds: like the model's last one.
LayerKind predicting_block(const Transformer& transformer) {
  return transformer.experts ? LayerKind::expert_transformer : LayerKind::transformer;
}

/// Two norms join the hidden state with the next token's embedding; embedding and head are the
/// model's own, but for a norm before the head.
std::int64_t prediction_parameters(const Transformer& transformer) {
  return 2 * transformer.hidden * transformer.hidden + 3 * norm_parameters(transformer) +
         block_parameters(transformer, predicting_block(transformer));
}

/// Multiply-adds of a block's matrices for one token.
std::int64_t block_products(const Transformer& transformer, LayerKind kind) {
  std::int64_t products = attention_matrices(transformer);
  if (kind == LayerKind::transformer)
    return products + feed_forward_matrices(transformer, transformer.feed_forward);
  const Experts& experts = *transformer.experts;
  const std::int64_t inner = experts.active * experts.feed_forward + experts.shared_feed_forward;
  return products + feed_forward_matrices(transformer, inner) + experts.count * transformer.hidden;
}

/// BERT's two heads as in pre-training: pooler and next-sentence classifier; transform, norm and
/// vocabulary bias of the masked-language head.
std::int64_t bert_head_parameters(const Transformer& transformer) {
  const std::int64_t hidden = transformer.hidden;
  const std::int64_t square = hidden * hidden + hidden;
  const std::int64_t sentence = square + 2 * hidden + 2;
  const std::int64_t masked = square + norm_parameters(transformer) + transformer.vocabulary;
  return sentence + masked;
}

std::int64_t head_parameters(const Transformer& transformer) {
  if (transformer.patches) {
    const std::int64_t classes = transformer.patches->classes;
    return norm_parameters(transformer) + classes * transformer.hidden + classes;
  }
  const std::int64_t projection =
      transformer.tied_head ? 0 : transformer.vocabulary * transformer.hidden;
  // BERT normalises at the end of each block, so nothing is left to normalise before its heads.
  return projection + (transformer.token_types ? bert_head_parameters(transformer)
                                               : norm_parameters(transformer));
}

void validate(const Experts& experts) {
  expect_range("experts.count", experts.count, 1 << 16);
  expect_range("experts.active", experts.active, experts.count);
  expect_range("experts.feed_forward", experts.feed_forward, 1 << 22);
  expect_range("experts.shared_feed_forward + 1", experts.shared_feed_forward + 1, 1 << 24);
  expect_range("experts.dense_blocks + 1", experts.dense_blocks + 1, 1 << 20);
  const ExpertGroups& groups = experts.groups;
  expect_range("experts.groups", groups.count, experts.count);
  expect_range("experts.active_groups", groups.active, groups.count);
  if (experts.count % groups.count != 0) {
    fail("experts.groups must divide the ", experts.count, " experts, found ", groups.count);
  }
  expect_range("experts.active", experts.active, experts.count / groups.count * groups.active);
}

void validate(const LatentAttention& latent, const Transformer& transformer) {
  expect_range("latent.query_rank + 1", latent.query_rank + 1, 1 << 20);
  expect_range("latent.key_value_rank", latent.key_value_rank, 1 << 20);
  expect_range("latent.rotary_width", latent.rotary_width, 1 << 16);
  expect_range("latent.plain_width", latent.plain_width, 1 << 16);
  expect_range("latent.value_width", latent.value_width, 1 << 16);
  if (latent.rotary_width + latent.plain_width != transformer.head_width) {
    fail("transformer: head_width must be latent.plain_width + latent.rotary_width = ",
         latent.plain_width + latent.rotary_width, ", found ", transformer.head_width);
  }
}

/// One token for each patch and one for the class.
void validate(const Patches& patches, const Transformer& transformer) {
  expect_range("patches.image", patches.image, 1 << 16);
  expect_range("patches.patch", patches.patch, patches.image);
  expect_range("patches.channels", patches.channels, 1 << 12);
  expect_range("patches.classes", patches.classes, 1 << 24);
  const std::int64_t side = patches.image / patches.patch;
  if (transformer.positions != side * side + 1) {
    fail("transformer: expected ", side * side + 1, " positions, a class token and ", side, " x ",
         side, " patches; found ", transformer.positions);
  }
}

[[noreturn]] void fail_kind(LayerKind kind) {
  fail("a layer of kind ", to_string(kind), " does not belong to a transformer");
}

}  // namespace

int projections_up(const Transformer& transformer) {
  return transformer.activation == FeedForward::swiglu ? 2 : 1;
}

void validate(const Transformer& transformer) {
  expect_range("hidden", transformer.hidden, 1 << 20);
  expect_range("heads", transformer.heads, 1 << 16);
  expect_range("key_value_heads", transformer.key_value_heads, 1 << 16);
  expect_range("head_width", transformer.head_width, 1 << 16);
  expect_range("feed_forward", transformer.feed_forward, 1 << 24);
  expect_range("vocabulary", transformer.vocabulary, 1 << 28);
  expect_range("positions", transformer.positions, 1 << 28);
  expect_range("heads x head_width", query_width(transformer), 1 << 22);
  if (transformer.heads % transformer.key_value_heads != 0) {
    fail("transformer: ", transformer.key_value_heads, " key-value heads do not divide ",
         transformer.heads, " heads");
  }
  if (transformer.experts) validate(*transformer.experts);
  if (transformer.latent) validate(*transformer.latent, transformer);
  if (transformer.patches) validate(*transformer.patches, transformer);
  expect_range("streams", transformer.streams, 1 << 10);
  if (transformer.prediction_modules < 0 || transformer.prediction_modules > 1024) {
    fail("transformer: prediction_modules must be from 0 to 1024, found ",
         transformer.prediction_modules);
  }
}

std::int64_t layer_parameters(const Transformer& transformer, LayerKind kind) {
  switch (kind) {
    case LayerKind::embedding: return embedding_parameters(transformer);
    case LayerKind::transformer:
    case LayerKind::expert_transformer: return block_parameters(transformer, kind);
    case LayerKind::prediction: return prediction_parameters(transformer);
    case LayerKind::head: return head_parameters(transformer);
    default: fail_kind(kind);
  }
}

namespace {

/// Scores over a head's width, and the weighted sum of values.
double attention_flops(const Transformer& transformer, double tokens) {
  const std::int64_t values =
      transformer.latent ? transformer.latent->value_width : transformer.head_width;
  return 2 * tokens * tokens *
         static_cast<double>(transformer.heads * (transformer.head_width + values));
}

/// Queries, keys and values from their latents.
double projection_flops(const Transformer& transformer, double tokens) {
  const LatentAttention& latent = *transformer.latent;
  const std::int64_t inputs = latent.query_rank > 0 ? latent.query_rank : transformer.hidden;
  const std::int64_t outputs = transformer.heads * (latent.plain_width + latent.value_width);
  return 2 * tokens *
         static_cast<double>(query_width(transformer) * inputs + outputs * latent.key_value_rank);
}

double head_flops(const Transformer& transformer, double tokens) {
  const auto hidden = static_cast<double>(transformer.hidden);
  if (transformer.patches) return 2 * hidden * static_cast<double>(transformer.patches->classes);
  double linear = 2 * tokens * hidden * static_cast<double>(transformer.vocabulary);
  // BERT: the masked-language transform for each token; pooler and classifier for the first.
  if (transformer.token_types)
    linear += 2 * (tokens * hidden * hidden + hidden * hidden + 2 * hidden);
  return linear;
}

double embedding_flops(const Transformer& transformer, double tokens) {
  if (!transformer.patches) return 0;
  const Patches& patches = *transformer.patches;
  const std::int64_t pixels = patches.patch * patches.patch * patches.channels;
  return 2 * (tokens - 1) * static_cast<double>(pixels * transformer.hidden);
}

}  // namespace

TransformerFlops layer_flops(const Transformer& transformer, LayerKind kind,
                             std::int64_t sequence) {
  const auto tokens = static_cast<double>(sequence);
  const auto block = [&](LayerKind of) -> TransformerFlops {
    const double attention = attention_flops(transformer, tokens);
    return {.linear = 2 * tokens * static_cast<double>(block_products(transformer, of)),
            .attention = attention,
            .selective = transformer.latent ? projection_flops(transformer, tokens) : attention};
  };
  switch (kind) {
    case LayerKind::embedding: return {.linear = embedding_flops(transformer, tokens)};
    case LayerKind::transformer:
    case LayerKind::expert_transformer: return block(kind);
    case LayerKind::prediction: {
      TransformerFlops flops = block(predicting_block(transformer));
      const auto hidden = static_cast<double>(transformer.hidden);
      flops.linear += 2 * tokens * 2 * hidden * hidden + head_flops(transformer, tokens);
      return flops;
    }
    case LayerKind::head: return {.linear = head_flops(transformer, tokens)};
    default: fail_kind(kind);
  }
}

TransformerFlops layer_flops(const Transformer& transformer, const Layer& layer,
                             std::int64_t sequence) {
  if (layer.steps.empty()) return layer_flops(transformer, layer.kind, sequence);
  const auto tokens = static_cast<double>(sequence);
  TransformerFlops flops;
  for (const Step& step : layer.steps) {
    flops.linear += linear_flops(step, tokens);
    flops.attention += attention_flops(step, tokens);
  }
  flops.selective = flops.attention;
  return flops;
}

std::int64_t tied_parameters(const Transformer& transformer) {
  return transformer.tied_head ? transformer.vocabulary * transformer.hidden : 0;
}

}  // namespace stagecraft
