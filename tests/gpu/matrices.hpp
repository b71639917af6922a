// Large matrices for checks, of which any part can be made apart.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "executor/backends/backend.hpp"
#include "executor/values/bfloat16.hpp"
#include "tests/gpu/bench.hpp"

namespace stagecraft::gpu {

using Rows = std::vector<std::int64_t>;

/// A matrix whose numbers follow from their places, so that any rows or columns of it can be made
/// apart: noise with deviation 1, times `size`, which bf16 holds.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::uint64_t seed = 0;
  double size = 1;

  float at(std::int64_t row, std::int64_t column) const {
    // Steele et al., "Fast splittable pseudorandom number generators", 2014.
    auto bits = static_cast<std::uint64_t>(row * columns + column) + seed * 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    const double even = static_cast<double>((bits ^ (bits >> 31)) >> 11) * 0x1p-52 - 1;
    return static_cast<float>(Bfloat16(static_cast<float>(size * 1.7320508075688772 * even)));
  }
};

/// So many of them, the first and the last among them.
inline Rows sampled(std::int64_t count, std::int64_t most = 64) {
  const std::int64_t taken = std::min(count, most);
  Rows rows;
  for (std::int64_t i = 0; i < taken; ++i) {
    rows.push_back(taken == 1 ? 0 : i * (count - 1) / (taken - 1));
  }
  return rows;
}

inline Rows all_of(std::int64_t count) {
  Rows rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

template <class T>
void fill(Backend& backend, const Matrix& matrix, const Rows& rows, const Rows& columns,
          Tensor& tensor) {
  std::vector<T> numbers;
  numbers.reserve(static_cast<std::size_t>(tensor.elements()));
  for (const std::int64_t row : rows) {
    for (const std::int64_t column : columns) numbers.push_back(T(matrix.at(row, column)));
  }
  backend.upload(std::as_bytes(std::span<const T>(numbers)), tensor);
}

/// These rows and columns of the matrix.
inline Tensor made(Backend& backend, const Matrix& matrix, const Rows& rows, const Rows& columns,
                   Precision precision) {
  Tensor tensor = backend.allocate(
      {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns.size())},
      precision);
  switch (precision) {
    case Precision::float64: fill<double>(backend, matrix, rows, columns, tensor); break;
    case Precision::float32: fill<float>(backend, matrix, rows, columns, tensor); break;
    default: fill<Bfloat16>(backend, matrix, rows, columns, tensor); break;
  }
  return tensor;
}

inline Tensor whole(Backend& backend, const Matrix& matrix, Precision precision) {
  return made(backend, matrix, all_of(matrix.rows), all_of(matrix.columns), precision);
}

/// Full of what is no number.
inline Tensor poisoned(Backend& backend, std::vector<std::int64_t> shape, Precision precision) {
  Tensor tensor = backend.allocate(std::move(shape), precision);
  const std::vector<std::byte> ones(static_cast<std::size_t>(tensor.bytes()), std::byte{0xff});
  backend.upload(ones, tensor);
  return tensor;
}

/// Rows of a result, one behind the other.
inline Values rows_in(Backend& backend, const Tensor& tensor, const Rows& rows) {
  Values all;
  for (const std::int64_t row : rows) {
    const Values one = Bench::values(backend, rows_of(tensor, row, row + 1));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

}  // namespace stagecraft::gpu
