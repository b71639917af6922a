// Comparing runs, bit by bit or to rounding.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "executor/driver/execute.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// The first element whose bits differ; the tensors' shapes and precisions are equal.
template <class Number>
std::optional<std::int64_t> first_different_element(const Tensor& a, const Tensor& b) {
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    if (!same_bits(a.data<Number>()[i], b.data<Number>()[i])) return i;
  }
  return {};
}

template <class Number>
std::string different_weight(const std::string& name, const Tensor& run, const Tensor& reference) {
  const auto at = first_different_element<Number>(run, reference);
  if (!at) return {};
  return fmt::format("{}[{}] is {:a}, expected {:a}", name, *at,
                     static_cast<double>(run.data<Number>()[*at]),
                     static_cast<double>(reference.data<Number>()[*at]));
}

std::string different_weight(const std::string& name, const Tensor& run, const Tensor& reference) {
  if (run.shape != reference.shape || run.precision != reference.precision) {
    return name + " has another shape or precision than expected";
  }
  return run.precision == Precision::float64 ? different_weight<double>(name, run, reference)
                                             : different_weight<float>(name, run, reference);
}

std::string different_loss(const RunResult& run, const RunResult& reference) {
  for (std::size_t i = 0; i < std::min(run.losses.size(), reference.losses.size()); ++i) {
    if (same_bits(run.losses[i], reference.losses[i])) continue;
    return fmt::format("the loss of step {} is {:a}, expected {:a}", i, run.losses[i],
                       reference.losses[i]);
  }
  if (run.losses.size() == reference.losses.size()) return {};
  return fmt::format("the run has {} steps, expected {}", run.losses.size(),
                     reference.losses.size());
}

/// Sums over the elements of tensors.
struct Squares {
  double difference = 0;
  double reference = 0;

  template <class Number>
  void add(const Tensor& a, const Tensor& b) {
    for (std::int64_t i = 0; i < a.elements(); ++i) {
      const double expected = b.data<Number>()[i];
      const double apart = a.data<Number>()[i] - expected;
      difference += apart * apart;
      reference += expected * expected;
    }
  }
};

}  // namespace

std::string first_difference(const RunResult& run, const RunResult& reference) {
  if (std::string loss = different_loss(run, reference); !loss.empty()) return loss;
  if (run.parameter_names != reference.parameter_names) {
    return "the run has other parameters than expected";
  }
  for (std::size_t i = 0; i < run.parameters.size(); ++i) {
    std::string weight =
        different_weight(run.parameter_names[i], run.parameters[i], reference.parameters[i]);
    if (!weight.empty()) return weight;
  }
  return {};
}

Distance distance(const RunResult& run, const RunResult& reference) {
  if (run.losses.size() != reference.losses.size() ||
      run.parameter_names != reference.parameter_names) {
    throw Error(ErrorKind::check, "the runs have other steps or parameters than each other");
  }
  Distance apart;
  for (std::size_t i = 0; i < run.losses.size(); ++i) {
    const double difference = std::abs(run.losses[i] - reference.losses[i]);
    apart.losses = std::max(apart.losses, difference / std::abs(reference.losses[i]));
  }
  Squares squares;
  for (std::size_t i = 0; i < run.parameters.size(); ++i) {
    const Tensor& weight = run.parameters[i];
    weight.precision == Precision::float64 ? squares.add<double>(weight, reference.parameters[i])
                                           : squares.add<float>(weight, reference.parameters[i]);
  }
  apart.weights = std::sqrt(squares.difference / squares.reference);
  return apart;
}

}  // namespace stagecraft
