#include "executor/layers/pieces.hpp"

#include <utility>

namespace stagecraft {

namespace {

/// A sample's rows of one piece, of a tensor that has so many pieces.
Tensor rows_of_piece(const Tensor& rows, const AttentionShape& shape, std::int64_t sample,
                     std::int64_t piece, std::int64_t pieces) {
  const Tensor flat = reshaped(rows, {rows.elements() / rows.shape.back(), rows.shape.back()});
  const std::int64_t first = (sample * pieces + piece) * shape.sequence;
  return rows_of(flat, first, first + shape.sequence);
}

Tensor allocate_piece(Backend& backend, const AttentionShape& shape, const Tensor& like) {
  return backend.allocate({shape.samples, shape.sequence, like.shape.back()}, like.precision);
}

/// Copies or adds one piece's rows.
void take(Backend& backend, const AttentionShape& shape, const Tensor& gradient, std::size_t piece,
          bool is_new, Tensor& sum) {
  for (std::int64_t sample = 0; sample < shape.samples; ++sample) {
    const Tensor found = rows_of_piece(gradient, shape, sample, static_cast<std::int64_t>(piece),
                                       static_cast<std::int64_t>(piece_of(shape)) + 1);
    Tensor to = rows_of_piece(sum, shape, sample, 0, 1);
    is_new ? backend.copy(found, to) : backend.add(found, to);
  }
}

}  // namespace

Tensor with_past(Backend& backend, const AttentionShape& shape, const Tensor& own,
                 const SequencePieces* pieces) {
  if (shape.past == 0) return own;
  const auto last = static_cast<std::int64_t>(piece_of(shape));
  Tensor all = backend.allocate({shape.samples, shape.past + shape.sequence, own.shape.back()},
                                own.precision);
  for (std::int64_t piece = 0; piece <= last; ++piece) {
    const Tensor& from = piece < last ? pieces->kept[static_cast<std::size_t>(piece)] : own;
    for (std::int64_t sample = 0; sample < shape.samples; ++sample) {
      Tensor to = rows_of_piece(all, shape, sample, piece, last + 1);
      backend.copy(rows_of_piece(from, shape, sample, 0, 1), to);
    }
  }
  return all;
}

Tensor leave_past(Backend& backend, const AttentionShape& shape, const Tensor& gradient,
                  SequencePieces& pieces) {
  const std::size_t own = piece_of(shape);
  pieces.kept[own] = {};
  for (std::size_t piece = 0; piece < own; ++piece) {
    Tensor& sum = pieces.gradients[piece];
    const bool is_new = sum.empty();
    if (is_new) sum = allocate_piece(backend, shape, gradient);
    take(backend, shape, gradient, piece, is_new, sum);
  }
  const Tensor left = std::exchange(pieces.gradients[own], {});
  Tensor all = allocate_piece(backend, shape, gradient);
  if (!left.empty()) backend.copy(left, all);
  take(backend, shape, gradient, own, left.empty(), all);
  return all;
}

}  // namespace stagecraft
