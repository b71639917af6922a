// Trials of the backend's operations: kernels as it launches them, whatever it takes for one.

#pragma once

#include <span>

#include "executor/backends/cuda/cuda_backend.hpp"
#include "tests/cuda/simt/trials.hpp"

namespace stagecraft::tests {

template <class T>
constexpr Precision precision_of =
    std::is_same_v<T, float> ? Precision::float32 : Precision::bfloat16;

/// A tensor of these numbers.
template <class T>
Tensor uploaded(Backend& backend, std::vector<std::int64_t> shape, const std::vector<T>& numbers) {
  Tensor tensor = backend.allocate(std::move(shape), precision_of<T>);
  backend.upload(std::as_bytes(std::span<const T>(numbers)), tensor);
  return tensor;
}

template <class T>
Values widened(const std::vector<T>& numbers) {
  Values all;
  for (const T number : numbers) all.push_back(wide(number));
  return all;
}

template <class T>
Values downloaded(Backend& backend, const Tensor& tensor) {
  std::vector<T> numbers(static_cast<std::size_t>(tensor.elements()));
  backend.download(tensor, std::as_writable_bytes(std::span<T>(numbers)));
  return widened(numbers);
}

/// What `work` leaves on a backend: the same by two orders.
template <class Work>
Results on_backend(const Work& work) {
  return by_two_orders([&](cudaStream_t) {
    cuda::CudaBackend backend({.device = 0});
    return work(backend);
  });
}

}  // namespace stagecraft::tests
