// Files in the format "safetensors" (github.com/huggingface/safetensors): eight bytes with the size
// of a JSON header, the header with each tensor's type, shape and place, and then nothing but data.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "executor/values/tensor.hpp"
#include "executor/weights/durable_file.hpp"

namespace stagecraft {

/// Types of elements that can be read; others are listed in a file's header, too, but refused.
enum class StoredType { float64, float32, float16, bfloat16 };

/// One tensor of a file: the bytes [first, end) of its data, in row-major order.
struct StoredTensor {
  std::string name;
  StoredType type = StoredType::float32;
  std::vector<std::int64_t> shape;
  std::int64_t first = 0;
  std::int64_t end = 0;
  bool operator==(const StoredTensor&) const = default;
};

/// A file's header; the tensors are in the order of their data.
struct TensorFile {
  std::filesystem::path path;
  std::int64_t data = 0;  ///< where the data begin
  std::vector<StoredTensor> tensors;
};

/// Reads a header. Throws Error (input) with one sentence unless the file is whole: the header's
/// size within the file and below 100 MB, JSON without unknown members, every tensor as large as
/// its type and shape say, and the data without overlaps, gaps or a rest.
TensorFile open_tensor_file(const std::filesystem::path& path);

/// Null if there is none of this name.
const StoredTensor* find(const TensorFile& file, std::string_view name);

/// The elements in order, as numbers of `precision` (fp32 or fp64): exact but for fp64 read as
/// fp32. Throws Error (input) if the file ends early.
Tensor read_tensor(const TensorFile& file, const StoredTensor& stored, Precision precision);

/// A tensor under its name.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// Writes fp32 as F32 and fp64 as F64, byte for byte as the Python package does with the metadata
/// {"format": "pt"}, first into a file beside it, so that a failure leaves no half of one. Throws
/// Error (execution) if it cannot be written.
void write_tensor_file(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       SystemCalls& calls = system_calls());

}  // namespace stagecraft
