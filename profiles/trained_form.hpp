// Which transformer blocks the executor computes, and how they are made: those that a
// `Transformer`'s numbers describe, and those whose steps say that they differ in their norms
// (Qwen3, OLMo 2, Gemma 3), in what attention sees, in their activation (OPT) or by experts
// (Mixtral).

#pragma once

#include <optional>
#include <string>

#include "profiles/block_steps.hpp"
#include "profiles/model.hpp"

namespace stagecraft {

struct TrainedForm {
  /// Norms of queries and keys before the scores: one of a head's width for all heads (Qwen3), or
  /// one over all heads (OLMo 2).
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  bool norms_before = true;   ///< attention and feed-forward
  bool norms_behind = false;  ///< them: instead (OLMo 2), or as well (Gemma 3)
  bool relu = false;          ///< max(0, x) as the feed-forward's activation (OPT)
  bool experts = false;       ///< instead of the feed-forward
  std::int64_t window = 0;    ///< tokens that one sees, itself among them; 0: all before it
  bool operator==(const TrainedForm&) const = default;
};

/// The form of a block; nothing for others and for blocks that are not computed. Steps have to be
/// exactly those that the transformer's numbers ask for.
std::optional<TrainedForm> trained_form(const Transformer& transformer, const Layer& layer);

/// Why the executor does not train the transformer's layer; "" if it does.
std::string reason_against_training(const Model& model, const Layer& layer);

/// The reason why the layer cannot be divided among this many tensor-parallel peers; "" if it can.
std::string reason_against_dividing(const Transformer& transformer, const Layer& layer, int peers);

/// Of a head's numbers those that positions turn.
std::int64_t turned_width(const Transformer& transformer);

/// The part of the layer that the CUDA backend does not support, as the end of a sentence; "" if it
/// supports all.
std::string only_on_cpus(const Transformer& transformer, const Layer& layer);

/// Whether an embedding's or a head's steps are a `Transformer`'s: words, and positions if they are
/// learned; last norm and logits. True of layers without steps.
bool has_plain_steps(const Transformer& transformer, const Layer& layer);

/// Rows of an embedding's table of positions that come before the first position (OPT has two).
std::int64_t rows_before_positions(const Transformer& transformer, const Layer& layer);

}  // namespace stagecraft
