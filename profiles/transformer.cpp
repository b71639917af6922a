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

/// SwiGLU has a gate beside the projection up.
std::int64_t projections_up(const Transformer& transformer) {
  return transformer.activation == FeedForward::swiglu ? 2 : 1;
}

std::int64_t embedding_parameters(const Transformer& transformer) {
  std::int64_t rows = transformer.vocabulary;
  if (transformer.position == Position::learned) rows += transformer.positions;
  if (transformer.token_types) rows += 2;
  const std::int64_t norm = transformer.token_types ? norm_parameters(transformer) : 0;
  return rows * transformer.hidden + norm;
}

/// Weights of a block's matrices, without biases and norms.
std::int64_t block_matrices(const Transformer& transformer) {
  const std::int64_t attention = 2 * query_width(transformer) + 2 * key_value_width(transformer);
  const std::int64_t feed_forward = (projections_up(transformer) + 1) * transformer.feed_forward;
  return (attention + feed_forward) * transformer.hidden;
}

std::int64_t block_parameters(const Transformer& transformer) {
  std::int64_t biases = 0;
  if (transformer.attention_bias) {
    biases += query_width(transformer) + 2 * key_value_width(transformer);
  }
  if (transformer.output_bias) biases += transformer.hidden;
  if (transformer.feed_forward_bias) {
    biases += projections_up(transformer) * transformer.feed_forward + transformer.hidden;
  }
  return block_matrices(transformer) + biases + 2 * norm_parameters(transformer);
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
  const std::int64_t projection =
      transformer.tied_head ? 0 : transformer.vocabulary * transformer.hidden;
  // BERT normalises at the end of each block, so nothing is left to normalise before its heads.
  return projection + (transformer.token_types ? bert_head_parameters(transformer)
                                               : norm_parameters(transformer));
}

[[noreturn]] void fail_kind(LayerKind kind) {
  fail("a layer of kind ", to_string(kind), " does not belong to a transformer");
}

}  // namespace

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
}

std::int64_t layer_parameters(const Transformer& transformer, LayerKind kind) {
  if (kind == LayerKind::embedding) return embedding_parameters(transformer);
  if (kind == LayerKind::transformer) return block_parameters(transformer);
  if (kind == LayerKind::head) return head_parameters(transformer);
  fail_kind(kind);
}

TransformerFlops layer_flops(const Transformer& transformer, LayerKind kind,
                             std::int64_t sequence) {
  const auto tokens = static_cast<double>(sequence);
  const auto hidden = static_cast<double>(transformer.hidden);
  const auto vocabulary = static_cast<double>(transformer.vocabulary);
  const auto queries = static_cast<double>(query_width(transformer));
  if (kind == LayerKind::embedding) return {};
  if (kind == LayerKind::transformer) {
    return {.linear = 2 * tokens * static_cast<double>(block_matrices(transformer)),
            .attention = 2 * (2 * tokens * tokens * queries)};
  }
  if (kind != LayerKind::head) fail_kind(kind);
  double linear = 2 * tokens * hidden * vocabulary;
  // BERT: the masked-language transform for each token; pooler and classifier for the first.
  if (transformer.token_types)
    linear += 2 * (tokens * hidden * hidden + hidden * hidden + 2 * hidden);
  return {.linear = linear};
}

std::int64_t tied_parameters(const Transformer& transformer) {
  return transformer.tied_head ? transformer.vocabulary * transformer.hidden : 0;
}

}  // namespace stagecraft
