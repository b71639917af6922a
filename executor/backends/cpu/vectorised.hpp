// What the kernels have in common: matrices, sums in a fixed order, exp.
//
// Loops are written so that the compiler vectorises them without changing any result: elementwise
// work has no order, and sums run over a fixed number of lanes whatever the width of the machine's
// vectors. Without fused multiply-adds (see -ffp-contract in CMakeLists.txt), AVX-512, AVX2 and
// plain SSE give the same bits.

#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

// Compiled for three generations of processors, chosen when the program starts. The thread
// sanitizer's runtime is not there yet when that choice is made; Clang makes none for templates.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define STAGECRAFT_VECTORISED \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define STAGECRAFT_VECTORISED
#endif

namespace stagecraft::cpu {

/// Dense rows of memory that somebody else owns.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  T* row(std::int64_t index) const { return data + index * columns; }
};

inline constexpr int lanes = 32;

/// The sum of term(0) … term(count - 1), the same bits for the same terms: term i goes to lane i
/// mod 32, then halves are added to halves.
template <class T, class Term>
[[gnu::always_inline]] inline T ordered_sum(std::int64_t count, Term term) {
  std::array<T, lanes> sums{};
  std::int64_t first = 0;
  for (; first + lanes <= count; first += lanes) {
    for (int lane = 0; lane < lanes; ++lane) sums[lane] += term(first + lane);
  }
  for (int lane = 0; first + lane < count; ++lane) sums[lane] += term(first + lane);
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

template <class T>
[[gnu::always_inline]] inline T largest(const T* values, std::int64_t count) {
  std::array<T, lanes> maxima;
  maxima.fill(values[0]);
  std::int64_t first = 0;
  for (; first + lanes <= count; first += lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      const T value = values[first + lane];
      maxima[lane] = value > maxima[lane] ? value : maxima[lane];
    }
  }
  T result = maxima[0];
  for (int lane = 1; lane < lanes; ++lane) result = maxima[lane] > result ? maxima[lane] : result;
  for (; first < count; ++first) result = values[first] > result ? values[first] : result;
  return result;
}

[[gnu::always_inline]] inline double exponential(double x) {
  return std::exp(x);
}

/// e^x to about 1e-7, as a loop can be vectorised over it: x = n ln 2 + r with |r| <= ln 2 / 2,
/// then 2^n times a polynomial for e^r. Beyond ±87 it stays at the ends of the float range instead
/// of reaching 0 or infinity.
[[gnu::always_inline]] inline float exponential(float x) {
  x = x > 88.0f ? 88.0f : x;
  x = x < -87.0f ? -87.0f : x;
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
  constexpr float rounder = 12582912.0f;
  const float shifted = x * 1.44269504f + rounder;
  const float n = shifted - rounder;
  // ln 2 in two parts, the first with so few bits that n times it is exact.
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float series = 1.9875691500e-4f;
  series = series * r + 1.3981999507e-3f;
  series = series * r + 8.3334519073e-3f;
  series = series * r + 4.1665795894e-2f;
  series = series * r + 1.6666665459e-1f;
  series = series * r + 5.0000001201e-1f;
  series = series * r * r + r + 1.0f;
  const std::uint32_t power =
      std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(rounder) + 127u;
  return series * std::bit_cast<float>(power << 23);
}

}  // namespace stagecraft::cpu
