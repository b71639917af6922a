// Tensors: a shape over memory that a backend owns.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "profiles/model.hpp"
#include "profiles/units.hpp"

namespace stagecraft {

class Backend;

/// Rows x columns and so on, row major, dense unless a stride says otherwise. Copies share the
/// memory; the last one gives it back to its backend.
struct Tensor {
  std::shared_ptr<void> storage;  ///< null for an empty tensor
  std::vector<std::int64_t> shape;
  Precision precision = Precision::float32;
  std::int64_t stride = 0;  ///< elements from a row to the next one; 0: as many as a row has

  bool empty() const { return storage == nullptr; }
  std::int64_t elements() const;
  std::int64_t row_stride() const { return stride > 0 ? stride : shape.back(); }
  /// With what lies between rows.
  Bytes bytes() const { return elements_in_memory() * element_bytes(precision); }
  template <class T>
  T* data() {
    return static_cast<T*>(storage.get());
  }
  template <class T>
  const T* data() const {
    return static_cast<const T*>(storage.get());
  }

 private:
  std::int64_t elements_in_memory() const;
};

/// The precision of sums, statistics, weight gradients and optimizer states for tensors of this
/// precision: fp32 for 16 bits, else the same.
Precision precision_of_sums(Precision precision);

/// An uninitialised tensor in process memory, without a backend.
Tensor host_tensor(std::vector<std::int64_t> shape, Precision precision);
/// The bytes of a tensor in the process's memory.
std::span<std::byte> bytes_of(Tensor& tensor);
std::span<const std::byte> bytes_of(const Tensor& tensor);
/// Extents multiplied.
std::int64_t elements_of(const std::vector<std::int64_t>& shape);
/// "[256, 16]".
std::string to_text(const std::vector<std::int64_t>& shape);

/// A view of the same memory with another shape and equally many elements.
Tensor reshaped(const Tensor& tensor, std::vector<std::int64_t> shape);
/// Rows [first, end) of the first dimension, sharing the memory.
Tensor rows_of(const Tensor& tensor, std::int64_t first, std::int64_t end);
/// The beginning of the i-th of `parts` parts, which are as equal as possible.
std::int64_t part_begin(std::int64_t elements, std::size_t i, std::size_t parts);
/// The elements of the i-th part, as one row that shares the memory.
Tensor shard_of(const Tensor& tensor, std::size_t i, std::size_t parts);

}  // namespace stagecraft
