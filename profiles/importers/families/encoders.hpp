// What BERT and its relatives have in common.

#pragma once

#include "profiles/importers/families/blueprint.hpp"

namespace stagecraft {

inline constexpr auto with_shift = NormWeights::weight_and_bias;

/// What BERT's relatives differ in.
struct BertRow {
  Defaults sizes;
  std::int64_t token_types = 2;
  bool norms_before = false;    ///< of attention and feed-forward; then one is last
  bool norms_words = true;      ///< a norm follows words and positions
  bool pads_positions = false;  ///< positions start behind the row of the padding token
  bool bias_twice = false;      ///< where the head is not tied, its bias is kept twice
};

Blueprint read_bert_family(Keys& keys, const BertRow& row);

constexpr Defaults base_sizes(std::int64_t vocabulary) {
  return {vocabulary, 768, 3072, 12, 12, 0, 0, 512};
}

/// Attention and feed-forward; norms stand behind each, or before it.
Steps bert_block(const GroupedAttention& shape, std::int64_t inner, bool norms_before);

/// One dense layer before the classes of a sequence, one with a norm before the logits of words,
/// and biases of both; `bias_twice` as of `BertRow`.
void add_bert_heads(Blueprint& blueprint, bool bias_twice);

}  // namespace stagecraft
