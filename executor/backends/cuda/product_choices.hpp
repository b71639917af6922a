// Which of cuBLASLt's algorithms for a product was the fastest where somebody has measured it: its
// own guess comes first in its list, and is up to an eighth slower. A table, and no measurement
// when the program runs, for another algorithm has other bits.

#pragma once

#include <array>
#include <cstdint>

#include "executor/backends/cuda/matmul.hpp"

namespace stagecraft::cuda {

/// What names an algorithm in cuBLASLt's list.
struct ProductAlgorithm {
  std::int32_t id = 0;
  std::int32_t tile = 0;
  std::uint32_t custom = 0;
  std::uint16_t cluster = 0;
  bool operator==(const ProductAlgorithm&) const = default;
};

/// A product of rows x inner and inner x columns in bf16.
struct ProductChoice {
  std::int64_t rows, columns, inner;
  bool transpose_a, transpose_b;
  Fused::Kind fused;
  ProductAlgorithm algorithm;
};

/// H200, driver 580.159, cuBLASLt 13.1, 2026-11-28: the microseconds of the first in the list, and
/// of this one.
inline constexpr std::array product_choices{
    // GPT-2 124M, 8 x 1024 tokens: queries, keys and values 47.4 → 42.4
    ProductChoice{8192, 2304, 768, false, false, Fused::Kind::none, {66, 20, 1, 3}},
    // back through GELU 80.2 → 74.9
    ProductChoice{8192, 3072, 768, false, true, Fused::Kind::gelu_input, {39, 20, 0, 5}},
    // logits 869.7 → 813.5, and their input's gradient 860.0 → 814.0
    ProductChoice{8192, 50304, 768, false, true, Fused::Kind::none, {66, 201, 2, 5}},
    ProductChoice{8192, 768, 50304, false, false, Fused::Kind::none, {66, 20, 1, 3}},
};

}  // namespace stagecraft::cuda
