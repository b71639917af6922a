// Tensors as the kernels of the CPU backend take them: matrices of the element type they have.

#pragma once

#include <algorithm>

#include "executor/backends/cpu/kernels.hpp"
#include "profiles/error.hpp"

namespace stagecraft::cpu {

// Calls compute(T{}) with the tensor's element type.
template <class Compute>
auto with_type(Precision precision, Compute compute) {
  switch (precision) {
    case Precision::float32: return compute(float{});
    case Precision::float64: return compute(double{});
    case Precision::bfloat16:
    case Precision::float16:
    case Precision::float8:
    case Precision::float8_with_attention: break;
  }
  fail("the CPU backend computes in fp32 or fp64, not in ", to_string(precision));
}

// Leading dimensions folded into rows.
inline std::int64_t column_count(const Tensor& tensor) {
  return tensor.shape.empty() ? 0 : tensor.shape.back();
}

inline std::int64_t row_count(const Tensor& tensor) {
  const std::int64_t columns = column_count(tensor);
  return columns == 0 ? 0 : tensor.elements() / columns;
}

template <class T>
Matrix<T> matrix(Tensor& tensor) {
  return {tensor.data<T>(), row_count(tensor), column_count(tensor)};
}

template <class T>
Matrix<const T> matrix(const Tensor& tensor) {
  return {tensor.data<T>(), row_count(tensor), column_count(tensor)};
}

template <class T>
Factor<T> factor(const Tensor& tensor, bool transposed) {
  return {tensor.data<T>(), column_count(tensor), transposed};
}

inline bool same_size(const Tensor& a, const Tensor& b) {
  return a.elements() == b.elements() && a.precision == b.precision;
}

/// Calls visit(first, end) for parts of so many rows, each small enough that what one pass leaves
/// in the cache is still there for the next.
template <class Visit>
void for_each_part(std::int64_t rows, std::int64_t columns, Visit visit) {
  constexpr std::int64_t elements = 4096;
  const std::int64_t together =
      std::max<std::int64_t>(1, elements / std::max<std::int64_t>(1, columns));
  for (std::int64_t first = 0; first < rows; first += together)
    visit(first, std::min(first + together, rows));
}

template <class T>
Matrix<T> rows_of(Matrix<T> matrix, std::int64_t first, std::int64_t end) {
  return {matrix.row(first), end - first, matrix.columns};
}

inline ExpertSizes sizes_of(const Tensor& x, const ExpertChoice& choice, const Tensor& active) {
  return {.tokens = row_count(x),
          .hidden = column_count(x),
          .inner = column_count(active),
          .active = column_count(choice.chosen)};
}

}  // namespace stagecraft::cpu
