// Sums and products of nanoseconds that throw on overflow of 64 bits.

#pragma once

#include <cstdint>

#include "profiles/error.hpp"

namespace stagecraft {

[[noreturn]] inline void fail_too_long() {
  fail("simulate: times exceed 292 years");
}

inline std::int64_t exact_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) fail_too_long();
  return sum;
}

inline std::int64_t exact_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) fail_too_long();
  return product;
}

}  // namespace stagecraft
