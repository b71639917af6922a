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

/// Measured alone on an H200, driver 580.159, cuBLASLt 13.1, 2026-11-28: the microseconds of the
/// first in the list, and of this one. All of 8192 tokens.
inline constexpr std::array product_choices{
    // GPT-2 124M: queries, keys and values 47.4 → 42.4; back through GELU 80.2 → 74.9; logits 870 →
    // 814
    ProductChoice{8192, 2304, 768, false, false, Fused::Kind::none, {66, 20, 1, 3}},
    ProductChoice{8192, 3072, 768, false, true, Fused::Kind::gelu_input, {39, 20, 0, 5}},
    ProductChoice{8192, 50304, 768, false, true, Fused::Kind::none, {66, 201, 2, 5}},
    // GPT-2 350M: queries, keys and values 80.0 → 70.9; GELU 126.0 → 117.4; logits 1108 → 1018
    ProductChoice{8192, 3072, 1024, false, false, Fused::Kind::none, {66, 20, 1, 3}},
    ProductChoice{8192, 4096, 1024, false, false, Fused::Kind::gelu, {66, 28, 2, 5}},
    ProductChoice{8192, 50304, 1024, false, true, Fused::Kind::none, {66, 201, 2, 5}},
    // GPT-2 1.3B: queries, keys and values 305.0 → 279.6; output 113.7 → 102.9, and back 104.1 →
    // 98.3; GELU 478.6 → 410.7, and back 450.2 → 407.0
    ProductChoice{8192, 6144, 2048, false, false, Fused::Kind::none, {66, 20, 1, 3}},
    ProductChoice{8192, 2048, 2048, false, false, Fused::Kind::none, {66, 20, 1, 3}},
    ProductChoice{8192, 2048, 2048, false, true, Fused::Kind::none, {66, 20, 1, 3}},
    ProductChoice{8192, 8192, 2048, false, false, Fused::Kind::gelu, {66, 28, 0, 3}},
    ProductChoice{8192, 8192, 2048, false, true, Fused::Kind::gelu_input, {39, 20, 0, 3}},
};

}  // namespace stagecraft::cuda
