// Trials of kernels: what a kernel leaves in memory, beside plain formulas in double.
//
// Each is carried out twice, with other orders of blocks, warps and lanes, and has to leave the
// same bits. What it reads and writes lies between fences: what is read there is no number, and
// what is written there is found.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "executor/values/bfloat16.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/stand_in/streams.hpp"

namespace stagecraft::tests {

using Values = std::vector<double>;

template <class T>
double wide(T number) {
  if constexpr (std::is_same_v<T, Bfloat16>) {
    return static_cast<double>(static_cast<float>(number));
  } else {
    return static_cast<double>(number);
  }
}

/// Memory for a kernel: numbers, at an address that suits 16 bytes, between fences.
template <class T>
class Fenced {
 public:
  /// Beside such an address, by `beside` numbers, where kernels cannot take packs.
  explicit Fenced(const std::vector<T>& numbers, std::int64_t beside = 0)
      : Fenced(static_cast<std::int64_t>(numbers.size()), beside) {
    std::copy(numbers.begin(), numbers.end(), data());
  }
  /// Full of what is no number.
  explicit Fenced(std::int64_t count, std::int64_t beside = 0)
      : first_(fence + static_cast<std::size_t>(beside)),
        count_(static_cast<std::size_t>(count)),
        memory_(first_ + count_ + fence) {
    std::memset(static_cast<void*>(memory_.data()), 0xff, memory_.size() * sizeof(T));
  }

  T* data() { return memory_.data() + first_; }
  const T* data() const { return memory_.data() + first_; }
  double operator[](std::int64_t i) const { return wide(data()[i]); }
  Values values() const {
    Values all;
    for (std::size_t i = 0; i < count_; ++i) all.push_back(wide(data()[i]));
    return all;
  }
  bool fences_stand() const {
    const auto* bytes = reinterpret_cast<const unsigned char*>(memory_.data());
    const auto stands = [&](std::size_t first, std::size_t end) {
      return std::all_of(bytes + first * sizeof(T), bytes + end * sizeof(T),
                         [](auto byte) { return byte == 0xff; });
    };
    return stands(0, first_) && stands(first_ + count_, memory_.size());
  }

 private:
  static constexpr std::size_t fence = 64;
  std::size_t first_, count_;
  std::vector<T> memory_;
};

/// Normal numbers, the same every time.
template <class T>
std::vector<T> noise(std::int64_t count, double mean = 0, double deviation = 1) {
  static std::mt19937 generator(7);
  std::normal_distribution<float> normal(static_cast<float>(mean), static_cast<float>(deviation));
  std::vector<T> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(T(normal(generator)));
  return numbers;
}

inline std::vector<std::int32_t> indices(std::int64_t count, std::int64_t below) {
  static std::mt19937 generator(11);
  std::vector<std::int32_t> drawn;
  for (std::int64_t i = 0; i < count; ++i) {
    drawn.push_back(static_cast<std::int32_t>(generator() % static_cast<std::uint32_t>(below)));
  }
  return drawn;
}

/// Names of the kernels that trials have carried out.
inline std::set<std::string>& kernels_tried() {
  static std::set<std::string> names;
  return names;
}

using Results = std::vector<Values>;

/// What `work`, which is given a stream, leaves by the order that the seed draws.
Results by_order(unsigned seed, const std::function<Results(cudaStream_t)>& work);
/// The same by two orders.
Results by_two_orders(const std::function<Results(cudaStream_t)>& work);

/// Of memory that was written: once all that the stream was asked for is done.
template <class... T>
Results results(cudaStream_t stream, const Fenced<T>&... written) {
  cudaStreamSynchronize(stream);
  CHECK((written.fences_stand() && ...));
  return {written.values()...};
}

/// The largest difference of a number, measured by itself and by the size of all of them.
double largest_error(const Values& actual, const Values& expected);

/// Of a kernel that computes in float and stores T.
template <class T>
constexpr double tolerated = std::is_same_v<T, float> ? 5e-6 : 4e-3;

/// formula(i) for every i in [0, count).
template <class Formula>
Values expected(std::int64_t count, const Formula& formula) {
  Values all;
  for (std::int64_t i = 0; i < count; ++i) all.push_back(static_cast<double>(formula(i)));
  return all;
}

/// What it tries, and how; it fails like a test.
struct Trial {
  std::string name;
  void (*run)();
};
std::vector<Trial> element_trials();
std::vector<Trial> row_trials();
std::vector<Trial> norm_trials();
std::vector<Trial> operation_trials();

}  // namespace stagecraft::tests
