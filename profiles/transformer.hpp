// Parameters and FLOPs of a transformer's layers, from its dimensions.

#pragma once

#include <string_view>

#include "profiles/model.hpp"

namespace stagecraft {

/// Throws Error (input) unless the numbers can belong to a transformer: positive, not absurd (which
/// also keeps every count within 64 bits), and heads that divide into key-value groups.
void validate(const Transformer& transformer);

/// Trainable parameters of a transformer's layer; a tied head's projection counts at the embedding,
/// a prediction module's embedding and head at the model's own.
std::int64_t layer_parameters(const Transformer& transformer, LayerKind kind);

/// Matrices before a feed-forward's activation: SwiGLU has a gate beside the projection up.
int projections_up(const Transformer& transformer);

/// The kind of block `block` of the model: with experts after the first dense ones.
LayerKind block_kind(const Transformer& transformer, int block);

/// Floating-point operations of the matrix products of one sample, forward: 2mnk each. Of these,
/// `attention` (scores and weighted sum) has no weights; a causal mask is counted in full, as
/// the usual "model FLOPs" do, though kernels may skip half of it.
struct TransformerFlops {
  double linear = 0;
  double attention = 0;
  double selective = 0;  ///< of both, what selective recomputation does again (SelectiveCost)
};
TransformerFlops layer_flops(const Transformer& transformer, LayerKind kind, std::int64_t sequence);

/// The same of a layer of the model, which may be described step by step.
TransformerFlops layer_flops(const Transformer& transformer, const Layer& layer,
                             std::int64_t sequence);

/// The weights that a tied head shares with the embedding.
std::int64_t tied_parameters(const Transformer& transformer);

}  // namespace stagecraft
