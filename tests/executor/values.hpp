// Tensors for tests: filled with reproducible noise, read back as doubles, compared.

#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "executor/backends/backend.hpp"

namespace stagecraft::tests {

using Values = std::vector<double>;

inline constexpr std::array both_precisions{Precision::float32, Precision::float64};

inline Values values(const Tensor& tensor) {
  const auto count = static_cast<std::size_t>(tensor.elements());
  if (tensor.precision == Precision::float64) {
    return {tensor.data<double>(), tensor.data<double>() + count};
  }
  return {tensor.data<float>(), tensor.data<float>() + count};
}

inline double value(const Tensor& tensor, std::size_t element) {
  return tensor.precision == Precision::float64 ? tensor.data<double>()[element]
                                                : tensor.data<float>()[element];
}

inline void set(Tensor& tensor, std::size_t element, double value) {
  if (tensor.precision == Precision::float64) {
    tensor.data<double>()[element] = value;
  } else {
    tensor.data<float>()[element] = static_cast<float>(value);
  }
}

inline Tensor tensor_of(Backend& backend, std::vector<std::int64_t> shape, Precision precision,
                        const Values& numbers) {
  Tensor tensor = backend.allocate(std::move(shape), precision);
  for (std::size_t i = 0; i < numbers.size(); ++i) set(tensor, i, numbers[i]);
  return tensor;
}

/// Normal values that a float holds exactly, so that both precisions compute with the same numbers.
inline Tensor noise(Backend& backend, std::vector<std::int64_t> shape, Precision precision,
                    unsigned seed, double mean = 0, double deviation = 1) {
  Tensor tensor = backend.allocate(std::move(shape), precision);
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(mean, deviation);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    set(tensor, static_cast<std::size_t>(i), static_cast<float>(normal(generator)));
  }
  return tensor;
}

/// |actual - expected| / |expected| in the 2-norm.
inline double relative_error(const Values& actual, const Values& expected) {
  if (actual.size() != expected.size()) return INFINITY;
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return size == 0 ? std::sqrt(difference) : std::sqrt(difference / size);
}

inline double relative_error(const Tensor& actual, const Values& expected) {
  return relative_error(values(actual), expected);
}

/// What a precision can be held to when a few hundred terms are added up.
inline double tolerance(Precision precision) {
  return precision == Precision::float64 ? 1e-13 : 2e-6;
}

inline bool bitwise_equal(const Tensor& a, const Tensor& b) {
  if (a.empty() || b.empty()) return a.empty() && b.empty();
  return a.bytes() == b.bytes() &&
         std::memcmp(a.storage.get(), b.storage.get(), static_cast<std::size_t>(a.bytes())) == 0;
}

}  // namespace stagecraft::tests
