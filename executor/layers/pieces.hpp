// Attention across the pieces of a sequence: what a piece takes from those before it, and leaves to
// them.
//
//   piece            0     1     2            forward of 2: keys and values of 0, 1 and its own
//   rows kept            qkv   qkv   qkv           backward of 2: its own gradient, and what it
//   adds to gradients       += ←─ += ←─ own           those of 0 and 1, whose backward comes after
//   it

#pragma once

#include "executor/layers/layer.hpp"

namespace stagecraft {

/// Which piece has this shape.
inline std::size_t piece_of(const AttentionShape& shape) {
  return static_cast<std::size_t>(shape.past / shape.sequence);
}

/// Packed rows, sample by sample: those that the pieces before have kept, then `own`. Without past
/// `own` itself.
Tensor with_past(Backend& backend, const AttentionShape& shape, const Tensor& own,
                 const SequencePieces* pieces);

/// Nobody comes after the last piece.
inline void keep_for_later(const AttentionShape& shape, const Tensor& own, SequencePieces& pieces) {
  if (piece_of(shape) + 1 < pieces.kept.size()) pieces.kept[piece_of(shape)] = own;
}

/// Of the gradient of such rows: adds what belongs to the pieces before to theirs, and returns the
/// own rows' together with what later pieces have left, in memory of its own. What the piece kept
/// is needed no more.
Tensor leave_past(Backend& backend, const AttentionShape& shape, const Tensor& gradient,
                  SequencePieces& pieces);

}  // namespace stagecraft
