#include "executor/values/tensor.hpp"

#include <cassert>
#include <functional>
#include <numeric>
#include <utility>

namespace stagecraft {

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string to_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }
  return text + "]";
}

std::int64_t Tensor::elements() const {
  return empty() ? 0 : elements_of(shape);
}

std::int64_t Tensor::elements_in_memory() const {
  return stride == 0 ? elements() : elements() / shape.back() * stride;
}

Precision precision_of_sums(Precision precision) {
  return element_bytes(precision) < 4 ? Precision::float32 : precision;
}

Tensor host_tensor(std::vector<std::int64_t> shape, Precision precision) {
  const std::int64_t bytes = elements_of(shape) * element_bytes(precision);
  const std::shared_ptr<std::byte[]> storage(new std::byte[static_cast<std::size_t>(bytes)]);
  return {.storage = storage, .shape = std::move(shape), .precision = precision};
}

std::span<std::byte> bytes_of(Tensor& tensor) {
  return {tensor.data<std::byte>(), static_cast<std::size_t>(tensor.bytes())};
}

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.data<std::byte>(), static_cast<std::size_t>(tensor.bytes())};
}

Tensor reshaped(const Tensor& tensor, std::vector<std::int64_t> shape) {
  assert(tensor.empty() || elements_of(shape) == tensor.elements());
  assert(tensor.stride == 0 || shape.back() == tensor.shape.back());
  return {.storage = tensor.storage,
          .shape = std::move(shape),
          .precision = tensor.precision,
          .stride = tensor.stride};
}

Tensor rows_of(const Tensor& tensor, std::int64_t first, std::int64_t end) {
  assert(!tensor.shape.empty() && 0 <= first && first <= end && end <= tensor.shape.front());
  if (tensor.empty()) return tensor;
  std::vector<std::int64_t> shape = tensor.shape;
  shape.front() = 1;
  if (tensor.stride > 0) shape.back() = tensor.stride;
  const Bytes row = elements_of(shape) * element_bytes(tensor.precision);
  shape.back() = tensor.shape.size() > 1 ? tensor.shape.back() : shape.back();
  shape.front() = end - first;
  // Shares the ownership of the whole, but points at its part.
  std::shared_ptr<void> part(tensor.storage,
                             static_cast<std::byte*>(tensor.storage.get()) + first * row);
  return {.storage = std::move(part),
          .shape = std::move(shape),
          .precision = tensor.precision,
          .stride = tensor.stride};
}

std::int64_t part_begin(std::int64_t elements, std::size_t i, std::size_t parts) {
  return elements * static_cast<std::int64_t>(i) / static_cast<std::int64_t>(parts);
}

Tensor shard_of(const Tensor& tensor, std::size_t i, std::size_t parts) {
  const std::int64_t elements = tensor.elements();
  return rows_of(reshaped(tensor, {elements}), part_begin(elements, i, parts),
                 part_begin(elements, i + 1, parts));
}

}  // namespace stagecraft
