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

template double cross_entropy(Matrix<float>, std::span<const std::int32_t>, double);
template double cross_entropy(Matrix<double>, std::span<const std::int32_t>, double);

}  // namespace stagecraft::cpu
