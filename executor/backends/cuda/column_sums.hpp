// What kernels add up column by column over all rows, in two stages: chunks of rows, and then
// these. Free of CUDA, like elements.hpp.

#pragma once

#include <cstdint>

#include "executor/backends/cuda/elements.hpp"
#include "executor/backends/cuda/packs.hpp"

namespace stagecraft::cuda {

/// How rows fall into chunks whose sums are added up behind: the same for the same numbers of rows
/// and columns, whoever adds them up, so that the bits are the same, too.
struct RowChunks {
  std::int64_t rows = 0;
  std::int64_t most = 128;    ///< chunks
  std::int64_t least = 32;    ///< rows of one
  std::int64_t in_turns = 1;  ///< sums of a chunk, of every so many-th row each, and then of these
  STAGECRAFT_ON_BOTH std::int64_t size() const {
    const std::int64_t share = (rows + most - 1) / most;
    return share < least ? least : share;
  }
  STAGECRAFT_ON_BOTH std::int64_t count() const { return (rows + size() - 1) / size(); }
  STAGECRAFT_ON_BOTH std::int64_t end_of(std::int64_t chunk) const {
    const std::int64_t end = (chunk + 1) * size();
    return end < rows ? end : rows;
  }
};

/// Of narrow rows a warp has one, and the warps of a block share a chunk; of wide ones a block.
template <class T>
STAGECRAFT_ON_BOTH inline RowChunks chunks_of(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t widest_of_a_warp = 4 * 32 * in_pack<T>;
  if (columns <= widest_of_a_warp) return {.rows = rows, .in_turns = 8};
  return {.rows = rows, .most = 512, .least = 16};
}

/// Sums of chunks of rows, [chunks, columns], that are to be added up.
struct ChunkSums {
  const float* chunks;
  float* to;
  std::int64_t count;
  std::int64_t columns;
  bool adds;  ///< to what is there; else it is overwritten
};

/// Some of them at once.
struct ChunkSumsList {
  static constexpr int most = 32;
  ChunkSums sums[most] = {};
  int count = 0;
};

/// The columns' sums that a norm's backward pass has for nothing: the gradients of its weight and
/// bias, and the sums of what it leaves, which are a bias's gradient before it.
struct NormSums {
  static constexpr int weight = 0, bias = 1, output = 2, count = 3;
};

/// Terms of bias_gradient: the number itself.
template <class T>
struct BiasTerm {
  using Element = T;
  static constexpr int sums = 1;
  const T* dy;
  std::int64_t columns;
  STAGECRAFT_ON_BOTH void add(std::int64_t row, std::int64_t column, float (&to)[sums]) const {
    to[0] += number(dy[row * columns + column]);
  }

  bool can_hold() const { return columns % in_pack<T> == 0 && takes_packs(dy); }
  STAGECRAFT_ON_BOTH void add_pack(std::int64_t row, std::int64_t column,
                                   float (&to)[sums][in_pack<T>]) const {
    const Pack<T> gradient = pack_at(dy + row * columns + column);
    for (int i = 0; i < in_pack<T>; ++i) to[0][i] += gradient[i];
  }
};

/// Terms of the gradients of a norm's weight and bias; without `mean`, of RMSNorm's, and then there
/// is no bias, so the second sum is nobody's.
template <class T>
struct NormWeightTerm {
  using Element = T;
  static constexpr int sums = 2;
  const T* dy;
  const T* x;
  const float* mean;
  const float* scale;
  std::int64_t columns;
  STAGECRAFT_ON_BOTH void add(std::int64_t row, std::int64_t column, float (&to)[sums]) const {
    const std::int64_t at = row * columns + column;
    const float m = mean != nullptr ? mean[row] : 0.0f;
    const float gradient = number(dy[at]);
    to[0] += gradient * ((number(x[at]) - m) * scale[row]);
    to[1] += gradient;
  }

  bool can_hold() const { return columns % in_pack<T> == 0 && takes_packs(dy) && takes_packs(x); }
  STAGECRAFT_ON_BOTH void add_pack(std::int64_t row, std::int64_t column,
                                   float (&to)[sums][in_pack<T>]) const {
    const std::int64_t at = row * columns + column;
    const Pack<T> gradient = pack_at(dy + at);
    const Pack<T> in = pack_at(x + at);
    const float m = mean != nullptr ? mean[row] : 0.0f;
    const float s = scale[row];
    for (int i = 0; i < in_pack<T>; ++i) {
      to[0][i] += gradient[i] * ((in[i] - m) * s);
      to[1][i] += gradient[i];
    }
  }
};

}  // namespace stagecraft::cuda
