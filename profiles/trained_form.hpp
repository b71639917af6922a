// Which layers that are described step by step the executor computes all the same: transformer
// blocks that differ from a `Transformer`'s in their norms (Qwen3, OLMo 2) or in their
// activation (OPT).

#pragma once

#include <optional>

#include "profiles/block_steps.hpp"
#include "profiles/model.hpp"

namespace stagecraft {

struct TrainedForm {
  /// Of queries and keys, before the scores are made: for all heads one of a head's width (Qwen3),
  /// or one over all heads (OLMo 2).
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  bool norms_behind = false;  ///< of attention and feed-forward, instead of before them (OLMo 2)
  bool relu = false;          ///< max(0, x) as the feed-forward's activation (OPT)
};

/// The form of a block with these steps, which have to be exactly those that the transformer's
/// numbers ask for; nothing for others. A window as long as the model's positions is none.
std::optional<TrainedForm> trained_form(const Transformer& transformer, const Layer& layer);

/// Whether an embedding's or a head's steps are a `Transformer`'s: words, and positions if they are
/// learned; last norm and logits.
bool has_plain_steps(const Transformer& transformer, const Layer& layer);

/// Rows of an embedding's table of positions that come before the first position (OPT has two).
std::int64_t rows_before_positions(const Transformer& transformer, const Layer& layer);

}  // namespace stagecraft
