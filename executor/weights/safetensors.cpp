#include "executor/weights/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "executor/backends/backend.hpp"
#include "executor/weights/durable_file.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"

// The format is little-endian, and so are the machines this is for.
static_assert(std::endian::native == std::endian::little);

namespace stagecraft {

namespace {

struct StoredTypeRow {
  StoredType type;
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array stored_types{
    StoredTypeRow{StoredType::float64, "F64", 8}, StoredTypeRow{StoredType::float32, "F32", 4},
    StoredTypeRow{StoredType::float16, "F16", 2}, StoredTypeRow{StoredType::bfloat16, "BF16", 2}};

const StoredTypeRow& row_of(StoredType type) {
  return *std::ranges::find(stored_types, type, &StoredTypeRow::type);
}

/// The Python package's own limit.
constexpr std::int64_t most_header_bytes = 100'000'000;
constexpr std::int64_t size_bytes = 8;

// --- Reading
// --------------------------------------------------------------------------------------

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason) {
  fail(path.string(), ": not a whole safetensors file: ", reason);
}

std::int64_t size_of(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) fail(path.string(), ": no such file");
  if (std::filesystem::is_directory(path)) {
    fail(path.string(), ": is a folder; name the .safetensors file in it");
  }
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) fail(path.string(), ": cannot be read: ", error.message());
  return static_cast<std::int64_t>(size);
}

std::string read_bytes(std::ifstream& file, const std::filesystem::path& path, std::int64_t count) {
  std::string bytes(static_cast<std::size_t>(count), '\0');
  if (!file.read(bytes.data(), count)) fail(path.string(), ": cannot be read");
  return bytes;
}

std::string read_header(std::ifstream& file, const std::filesystem::path& path,
                        std::int64_t file_bytes) {
  if (file_bytes < size_bytes) {
    refuse(path, concat("it has ", file_bytes, " bytes, fewer than the eight of a header's size"));
  }
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, read_bytes(file, path, size_bytes).data(), sizeof bytes);
  if (bytes > static_cast<std::uint64_t>(most_header_bytes)) {
    refuse(path, concat("its header would have ", bytes, " bytes, more than ", most_header_bytes));
  }
  if (static_cast<std::int64_t>(bytes) > file_bytes - size_bytes) {
    refuse(path, concat("its header would have ", bytes, " bytes, but only ",
                        file_bytes - size_bytes, " follow"));
  }
  return read_bytes(file, path, static_cast<std::int64_t>(bytes));
}

StoredType read_type(const Json& json) {
  const std::string name = json.string();
  std::vector<std::string> known;
  for (const StoredTypeRow& row : stored_types) {
    if (row.name == name) return row.type;
    known.emplace_back(row.name);
  }
  json.fail(
      concat("weights of type ", name, " cannot be read; types that can: ", join_words(known)));
}

/// The bytes its type and shape say; fails where 64 bits cannot count them.
std::int64_t needed_bytes(const Json& json, const StoredTensor& tensor) {
  std::int64_t bytes = row_of(tensor.type).bytes;
  for (const std::int64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      json["shape"].fail("its elements are more than 64 bits count");
    }
  }
  return bytes;
}

StoredTensor read_entry(const std::string& name, const Json& json) {
  json.allow_only({"dtype", "shape", "data_offsets"});
  StoredTensor tensor{.name = name, .type = read_type(json["dtype"])};
  for (const Json& extent : json["shape"].elements()) tensor.shape.push_back(extent.integer(0));
  const Json offsets = json["data_offsets"];
  if (offsets.elements().size() != 2) offsets.fail("expected where its bytes begin and end");
  tensor.first = offsets[0].integer(0);
  tensor.end = offsets[1].integer(tensor.first);
  const std::int64_t needed = needed_bytes(json, tensor);
  if (tensor.end - tensor.first != needed) {
    offsets.fail(
        concat("has ", tensor.end - tensor.first, " bytes, but its type and shape need ", needed));
  }
  return tensor;
}

/// Everything between the first byte and the last belongs to exactly one tensor.
void require_dense(const TensorFile& file, std::int64_t data_bytes) {
  std::int64_t end = 0;
  const std::string* before = nullptr;
  for (const StoredTensor& tensor : file.tensors) {
    if (tensor.first < end) {
      refuse(file.path,
             concat("the bytes of \"", tensor.name, "\" overlap those of \"", *before, "\""));
    }
    if (tensor.first > end) {
      refuse(file.path, concat("the ", tensor.first - end, " bytes before \"", tensor.name,
                               "\" belong to no tensor"));
    }
    end = tensor.end;
    before = &tensor.name;
  }
  if (end > data_bytes) {
    refuse(file.path, concat("\"", *before, "\" ends at byte ", end,
                             " of the data, which have only ", data_bytes));
  }
  if (end < data_bytes) {
    refuse(file.path, concat("the last ", data_bytes - end, " bytes belong to no tensor"));
  }
}

// --- Numbers
// --------------------------------------------------------------------------------------

float widened(std::uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int fraction = half & 1023;
  const float sign = (half >> 15) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

float widened_brain(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

/// Converts elements one by one; memory from a file is aligned for nothing.
template <class From, class To, class Convert>
void convert(const std::string& bytes, To* to, Convert convert_one) {
  for (std::size_t offset = 0; offset < bytes.size(); offset += sizeof(From)) {
    From value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    *to++ = static_cast<To>(convert_one(value));
  }
}

template <class To>
void convert(StoredType type, const std::string& bytes, To* to) {
  switch (type) {
    case StoredType::float64: return convert<double>(bytes, to, [](double x) { return x; });
    case StoredType::float32: return convert<float>(bytes, to, [](float x) { return x; });
    case StoredType::float16: return convert<std::uint16_t>(bytes, to, widened);
    case StoredType::bfloat16: return convert<std::uint16_t>(bytes, to, widened_brain);
  }
}

// --- Writing
// --------------------------------------------------------------------------------------

StoredType stored_type(Precision precision) {
  return precision == Precision::float64 ? StoredType::float64 : StoredType::float32;
}

/// The package pads the header with spaces, so that the data begin at a multiple of eight.
std::string header_of(const std::vector<NamedTensor>& tensors) {
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  std::int64_t first = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::int64_t end = first + tensor.bytes();
    header[name] = {{"dtype", row_of(stored_type(tensor.precision)).name},
                    {"shape", tensor.shape},
                    {"data_offsets", {first, end}}};
    first = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

void write(DurableFile& file, const std::string& header, const std::vector<NamedTensor>& tensors) {
  const std::uint64_t size = header.size();
  file.write({reinterpret_cast<const char*>(&size), sizeof size});
  file.write(header);
  for (const NamedTensor& named : tensors) {
    file.write({named.tensor.data<char>(), static_cast<std::size_t>(named.tensor.bytes())});
  }
}

}  // namespace

TensorFile open_tensor_file(const std::filesystem::path& path) {
  const std::int64_t file_bytes = size_of(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path.string(), ": cannot be opened");
  const std::string header = read_header(file, path, file_bytes);
  if (!header.starts_with('{')) refuse(path, "its header is no JSON object");
  const Json json = Json::parse(header, path.string() + " (header)");
  TensorFile result{.path = path, .data = size_bytes + static_cast<std::int64_t>(header.size())};
  for (const std::string& name : json.names()) {
    if (name != "__metadata__") result.tensors.push_back(read_entry(name, json[name]));
  }
  std::ranges::stable_sort(result.tensors, {}, [](const StoredTensor& tensor) {
    return std::pair(tensor.first, tensor.end);
  });
  require_dense(result, file_bytes - result.data);
  return result;
}

const StoredTensor* find(const TensorFile& file, std::string_view name) {
  const auto found = std::ranges::find(file.tensors, name, &StoredTensor::name);
  return found == file.tensors.end() ? nullptr : &*found;
}

Tensor read_tensor(const TensorFile& file, const StoredTensor& stored, Precision precision) {
  std::ifstream stream(file.path, std::ios::binary);
  if (!stream.seekg(file.data + stored.first)) fail(file.path.string(), ": cannot be read");
  const std::string bytes = read_bytes(stream, file.path, stored.end - stored.first);
  Tensor tensor = make_cpu_backend()->allocate(stored.shape, precision);
  precision == Precision::float64 ? convert(stored.type, bytes, tensor.data<double>())
                                  : convert(stored.type, bytes, tensor.data<float>());
  return tensor;
}

void write_tensor_file(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       SystemCalls& calls) {
  // Larger elements first, then by name: every tensor is then aligned.
  std::ranges::sort(tensors, {}, [](const NamedTensor& named) {
    return std::pair(-element_bytes(named.tensor.precision), named.name);
  });
  const std::string header = header_of(tensors);
  Bytes whole = size_bytes + static_cast<Bytes>(header.size());
  for (const NamedTensor& named : tensors) whole += named.tensor.bytes();
  replace_durably(
      path, whole, "make room, or name another file",
      [&](DurableFile& file) { write(file, header, tensors); }, calls);
}

}  // namespace stagecraft
