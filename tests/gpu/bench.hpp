// Numbers for checks of operations, the same on any backend, and how far results are apart.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "executor/backends/backend.hpp"
#include "executor/values/bfloat16.hpp"

namespace stagecraft::gpu {

using Values = std::vector<double>;

/// In fp32, of an activation that a product computes where it writes: hardware's own tanh has 11
/// bits.
constexpr double tolerated_of_fused_activations = 1e-3;

/// Makes the same numbers on any backend: noise that the compared precision holds exactly, in the
/// precision that the backend computes in.
class Bench {
 public:
  /// `compared`: fp32 or bf16; `stored`: the same, or fp64 on the CPU.
  Bench(Backend& backend, Precision compared, Precision stored, unsigned seed)
      : backend_(backend), compared_(compared), stored_(stored), generator_(seed) {}

  Backend& backend() { return backend_; }

  Tensor input(const std::vector<std::int64_t>& shape, double mean = 0, double deviation = 1) {
    return made(shape, compared_, stored_, mean, deviation);
  }
  /// Numbers of sums' precision: gradients of weights, moments, statistics.
  Tensor sum(const std::vector<std::int64_t>& shape, double mean = 0, double deviation = 1) {
    return made(shape, Precision::float32, precision_of_sums(stored_), mean, deviation);
  }
  /// Full of what is no number.
  Tensor output(const std::vector<std::int64_t>& shape) { return poisoned(shape, stored_); }
  /// The same, of rows that lie as the backend likes them.
  Tensor output_rows(const std::vector<std::int64_t>& shape) {
    return poison(backend_.allocate_rows(shape, stored_));
  }
  Tensor output_of_sums(const std::vector<std::int64_t>& shape) {
    return poisoned(shape, precision_of_sums(stored_));
  }
  std::vector<std::int32_t> tokens(std::size_t count, int below) {
    std::vector<std::int32_t> drawn(count);
    for (auto& token : drawn)
      token = static_cast<std::int32_t>(generator_() % static_cast<unsigned>(below));
    return drawn;
  }
  /// Whether weights have masters, and are rounded to 16 bits.
  bool rounds() const { return stored_ == Precision::bfloat16; }
  /// A loss as a result.
  Tensor number(double value) {
    Tensor tensor = backend_.allocate({1}, precision_of_sums(stored_));
    fill(tensor, {value});
    return tensor;
  }

  static Values values(Backend& backend, const Tensor& tensor) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
    backend.download(tensor, bytes);
    const auto read = [&]<class T>(T) {
      const T* first = reinterpret_cast<const T*>(bytes.data());
      Values wide;
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        if constexpr (std::is_same_v<T, Bfloat16>) {
          wide.push_back(static_cast<double>(static_cast<float>(first[i])));
        } else {
          wide.push_back(static_cast<double>(first[i]));
        }
      }
      return wide;
    };
    switch (tensor.precision) {
      case Precision::float64: return read(double{});
      case Precision::float32: return read(float{});
      default: return read(Bfloat16{});
    }
  }

 private:
  Tensor made(const std::vector<std::int64_t>& shape, Precision rounded, Precision stored,
              double mean, double deviation) {
    Tensor tensor = backend_.allocate(shape, stored);
    Values numbers;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      const auto value = static_cast<float>(mean + deviation * noise());
      numbers.push_back(static_cast<double>(
          rounded == Precision::bfloat16 ? static_cast<float>(Bfloat16(value)) : value));
    }
    fill(tensor, numbers);
    return tensor;
  }

  void fill(Tensor& tensor, const Values& numbers) {
    const auto write = [&]<class T>(T) {
      std::vector<T> narrow;
      for (const double number : numbers) {
        if constexpr (std::is_same_v<T, double>) {
          narrow.push_back(number);
        } else {
          narrow.push_back(T(static_cast<float>(number)));
        }
      }
      backend_.upload(std::as_bytes(std::span<const T>(narrow)), tensor);
    };
    switch (tensor.precision) {
      case Precision::float64: return write(double{});
      case Precision::float32: return write(float{});
      default: return write(Bfloat16{});
    }
  }

  Tensor poisoned(const std::vector<std::int64_t>& shape, Precision precision) {
    return poison(backend_.allocate(shape, precision));
  }

  Tensor poison(Tensor tensor) {
    const std::vector<std::byte> ones(static_cast<std::size_t>(tensor.bytes()), std::byte{0xff});
    backend_.upload(ones, tensor);
    return tensor;
  }

  /// Even, with deviation 1.
  double noise() {
    constexpr double half_width = 1.7320508075688772;
    return half_width * (static_cast<double>(generator_()) * 0x1p-31 - 1);
  }

  Backend& backend_;
  Precision compared_;
  Precision stored_;
  std::mt19937 generator_;
};

/// In the 2-norm; what is no number is further away than all that is allowed.
inline double relative_error(const Values& actual, const Values& expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / (size > 0 ? size : 1));
}

/// The largest error of any tensor.
inline double largest_error(const std::vector<Values>& actual,
                            const std::vector<Values>& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = relative_error(actual[i], expected[i]);
    if (!(error <= worst)) worst = error;  // what is no number is worse than all
  }
  return worst;
}

}  // namespace stagecraft::gpu
