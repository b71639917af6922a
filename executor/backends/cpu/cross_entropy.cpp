#include <algorithm>
#include <cassert>

#include "executor/backends/cpu/kernels.hpp"

namespace stagecraft::cpu {

namespace {

// Vocabularies are long: parts are summed in T and added up in double, so that the sum is as good
// as its terms.
template <class T>
[[gnu::always_inline]] inline double long_sum(const T* values, std::int64_t count) {
  constexpr std::int64_t part = 1024;
  double sum = 0;
  for (std::int64_t first = 0; first < count; first += part) {
    const T* start = values + first;
    const auto term = [&](std::int64_t i) { return start[i]; };
    sum += static_cast<double>(ordered_sum<T>(std::min(part, count - first), term));
  }
  return sum;
}

template <class T>
STAGECRAFT_VECTORISED T row_largest(const T* values, std::int64_t count) {
  return largest(values, count);
}

// Leaves e^(value - top), and returns their sum.
template <class T>
STAGECRAFT_VECTORISED double row_exponentials(T* values, std::int64_t count, T top) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = exponential(values[i] - top);
  return long_sum(values, count);
}

template <class T>
STAGECRAFT_VECTORISED void scale_row(T* values, std::int64_t count, T factor) {
  for (std::int64_t i = 0; i < count; ++i) values[i] *= factor;
}

// One row: leaves its scaled gradient and returns its loss.
template <class T>
STAGECRAFT_VECTORISED double row_cross_entropy(T* logits, std::int64_t count, std::int32_t target,
                                               double scale) {
  const T top = largest(logits, count);
  const T target_logit = logits[target];
  for (std::int64_t i = 0; i < count; ++i) logits[i] = exponential(logits[i] - top);
  const double sum = long_sum(logits, count);
  const T factor = static_cast<T>(scale / sum);
  for (std::int64_t i = 0; i < count; ++i) logits[i] *= factor;
  logits[target] -= static_cast<T>(scale);
  return std::log(sum) + static_cast<double>(top) - static_cast<double>(target_logit);
}

}  // namespace

template <class T>
double cross_entropy(Matrix<T> logits, std::span<const std::int32_t> targets, double scale) {
  double loss = 0;
  std::int64_t row = 0;
  for (const std::int32_t target : targets) {
    assert(0 <= target && target < logits.columns);
    loss += row_cross_entropy(logits.row(row++), logits.columns, target, scale);
  }
  return loss;
}

template <class T>
void largest_logits(Matrix<const T> logits, T* tops) {
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    tops[row] = row_largest(logits.row(row), logits.columns);
  }
}

template <class T>
void exponentials(Matrix<T> logits, const T* tops, std::span<const std::int32_t> targets,
                  std::int64_t first, Matrix<T> sums) {
  std::int64_t row = 0;
  for (const std::int32_t target : targets) {
    T* values = logits.row(row);
    const std::int64_t at = target - first;
    const bool here = 0 <= at && at < logits.columns;
    sums.row(row)[1] = here ? values[at] - tops[row] : T(0);
    sums.row(row)[0] = static_cast<T>(row_exponentials(values, logits.columns, tops[row]));
    ++row;
  }
}

template <class T>
double cross_entropy_of_part(Matrix<T> logits, Matrix<const T> sums,
                             std::span<const std::int32_t> targets, std::int64_t first,
                             double scale) {
  double loss = 0;
  std::int64_t row = 0;
  for (const std::int32_t target : targets) {
    T* values = logits.row(row);
    const double sum = static_cast<double>(sums.row(row)[0]);
    const std::int64_t at = target - first;
    scale_row(values, logits.columns, static_cast<T>(scale / sum));
    if (0 <= at && at < logits.columns) values[at] -= static_cast<T>(scale);
    loss += std::log(sum) - static_cast<double>(sums.row(row)[1]);
    ++row;
  }
  return loss;
}

#define STAGECRAFT_INSTANTIATE(T)                                                                  \
  template double cross_entropy(Matrix<T>, std::span<const std::int32_t>, double);                 \
  template void largest_logits(Matrix<const T>, T*);                                               \
  template void exponentials(Matrix<T>, const T*, std::span<const std::int32_t>, std::int64_t,     \
                             Matrix<T>);                                                           \
  template double cross_entropy_of_part(Matrix<T>, Matrix<const T>, std::span<const std::int32_t>, \
                                        std::int64_t, double);

STAGECRAFT_INSTANTIATE(float)
STAGECRAFT_INSTANTIATE(double)

#undef STAGECRAFT_INSTANTIATE

}  // namespace stagecraft::cpu
