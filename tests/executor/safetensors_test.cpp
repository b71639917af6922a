#include "executor/weights/safetensors.hpp"

#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "executor/backends/backend.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/executor/values.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// A file's bytes: the size of the header, the header, and so many zeros.
std::string file_of(const std::string& header, std::size_t data) {
  const std::uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + std::string(data, '\0');
}

std::string entry(const std::string& name, const std::string& type, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

std::string bytes_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

TEST_CASE("a safetensors file is, byte for byte, what the Python package writes") {
  const TemporaryFolder folder;
  const auto backend = make_cpu_backend();
  const std::string file = (folder.path() / "w.safetensors").string();
  write_tensor_file(file, {{"b", tensor_of(*backend, {2}, Precision::float32, {1, -2})},
                           {"a", tensor_of(*backend, {1, 2}, Precision::float32, {0.5, 0})},
                           {"c", tensor_of(*backend, {1}, Precision::float64, {1})}});
  // Larger elements first, then by name; spaces up to a multiple of eight.
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"}," + entry("c", "F64", "[1]", "[0,8]") + "," +
      entry("a", "F32", "[1,2]", "[8,16]") + "," + entry("b", "F32", "[2]", "[16,24]") + "}";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  std::string expected = file_of(padded, 0);
  expected += std::string("\0\0\0\0\0\0\xf0\x3f", 8) + std::string("\0\0\0\x3f\0\0\0\0", 8) +
              std::string("\0\0\x80\x3f\0\0\0\xc0", 8);
  CHECK(bytes_of(file) == expected);
  const TensorFile read = open_tensor_file(file);
  REQUIRE(read.tensors.size() == 3);
  CHECK(read.tensors[1] == StoredTensor{"a", StoredType::float32, {1, 2}, 8, 16});
  CHECK(values(read_tensor(read, *find(read, "b"), Precision::float64)) == Values{1, -2});
  CHECK(find(read, "d") == nullptr);
}

TEST_CASE("every half-precision number is read as what it stands for") {
  const TemporaryFolder folder;
  std::string halves;
  std::vector<double> expected_half, expected_brain;
  for (int bits = 0; bits < 65536; ++bits) {
    halves += static_cast<char>(bits & 255);
    halves += static_cast<char>(bits >> 8);
    const int sign = bits >> 15 != 0 ? -1 : 1;
    const auto number = [&](int exponent_bits, int fraction_bits) -> double {
      const int fraction = bits & ((1 << fraction_bits) - 1);
      const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
      const int bias = (1 << (exponent_bits - 1)) - 1;
      if (exponent == (1 << exponent_bits) - 1)
        return fraction > 0 ? NAN : sign > 0 ? INFINITY : -INFINITY;
      const double part = std::ldexp(fraction, -fraction_bits) + (exponent == 0 ? 0 : 1);
      return sign * std::ldexp(part, std::max(exponent, 1) - bias);
    };
    expected_half.push_back(number(5, 10));
    expected_brain.push_back(number(8, 7));
  }
  for (const auto& [type, expected] :
       {std::pair{"F16", expected_half}, std::pair{"BF16", expected_brain}}) {
    const std::string file =
        folder.file("h.safetensors",
                    file_of("{" + entry("x", type, "[65536]", "[0,131072]") + "}", 0) + halves);
    const TensorFile read = open_tensor_file(file);
    for (const Precision precision : {Precision::float32, Precision::float64}) {
      const Values found = values(read_tensor(read, read.tensors[0], precision));
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        const bool both_nan = std::isnan(found[i]) && std::isnan(expected[i]);
        if (!both_nan && found[i] != expected[i]) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a safetensors file that is not whole is refused with one sentence") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& bytes) {
    return message_of([&] { open_tensor_file(folder.file("bad.safetensors", bytes)); });
  };
  const auto refused_header = [&](const std::string& header, std::size_t data = 8) {
    return refused(file_of(header, data));
  };
  const std::string a = entry("a", "F32", "[1]", "[0,4]");
  CHECK(refused_header("{" + a + "," + entry("b", "F32", "[1]", "[4,8]") + "}") == "");
  CHECK(refused_header("{}", 0) == "");

  CHECK_THAT(refused("abc"), ContainsSubstring("it has 3 bytes, fewer than the eight"));
  CHECK_THAT(refused(std::string(7, '\xff') + '\0'),
             ContainsSubstring("would have 72057594037927935 bytes, more than 100000000"));
  CHECK_THAT(refused(std::string(8, '\xff')), ContainsSubstring("more than 100000000"));
  CHECK_THAT(refused(std::string("\x10\0\0\0\0\0\0\0{}", 10)),
             ContainsSubstring("its header would have 16 bytes, but only 2 follow"));
  CHECK_THAT(refused_header(" {}", 0), ContainsSubstring("its header is no JSON object"));
  CHECK_THAT(refused_header("", 0), ContainsSubstring("its header is no JSON object"));
  CHECK_THAT(refused_header("{\"a\":", 0), ContainsSubstring("(header):1:"));
  CHECK_THAT(refused_header("{" + a + "," + a + "}"), ContainsSubstring("\"a\""));
  CHECK_THAT(refused_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}"),
             ContainsSubstring("data_offsets"));
  CHECK_THAT(refused_header("{\"a\":{\"type\":\"F32\"}}"), ContainsSubstring("\"type\""));
  CHECK_THAT(refused_header("{" + entry("a", "I64", "[1]", "[0,8]") + "}"),
             ContainsSubstring("a.dtype: weights of type I64 cannot be read; types that can: F64, "
                               "F32, F16 and BF16"));
  CHECK_THAT(refused_header("{" + entry("a", "F32", "[-1]", "[0,4]") + "}"),
             ContainsSubstring("a.shape[0]: expected an integer >= 0"));
  CHECK_THAT(refused_header("{" + entry("a", "F32", "[1]", "[4,0]") + "}"),
             ContainsSubstring("a.data_offsets[1]: expected an integer >= 4"));
  CHECK_THAT(refused_header("{" + entry("a", "F32", "[1]", "[0,4,8]") + "}"),
             ContainsSubstring("a.data_offsets: expected where its bytes begin and end"));
  CHECK_THAT(refused_header("{" + entry("a", "F32", "[3]", "[0,8]") + "}"),
             ContainsSubstring("a.data_offsets: has 8 bytes, but its type and shape need 12"));
  CHECK_THAT(refused_header("{" + entry("a", "F32", "[4294967296,4294967296]", "[0,8]") + "}"),
             ContainsSubstring("a.shape: its elements are more than 64 bits count"));
  CHECK_THAT(refused_header("{" + a + "," + entry("b", "F32", "[1]", "[2,6]") + "}"),
             ContainsSubstring("the bytes of \"b\" overlap those of \"a\""));
  CHECK_THAT(refused_header("{" + entry("b", "F32", "[1]", "[4,8]") + "}"),
             ContainsSubstring("the 4 bytes before \"b\" belong to no tensor"));
  CHECK_THAT(refused_header("{" + a + "," + entry("b", "F32", "[2]", "[4,12]") + "}"),
             ContainsSubstring("\"b\" ends at byte 12 of the data, which have only 8"));
  CHECK_THAT(refused_header("{" + a + "}"),
             ContainsSubstring("the last 4 bytes belong to no tensor"));
  CHECK_THAT(message_of([] { open_tensor_file("no/such.safetensors"); }),
             ContainsSubstring("no such file"));
  CHECK_THAT(message_of([&] { open_tensor_file(folder.path()); }), ContainsSubstring("a folder"));
}

TEST_CASE("no cut and no flipped bit of a safetensors file crashes its reader", "[seconds]") {
  const TemporaryFolder folder;
  const std::string header =
      "{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("b", "BF16", "[2,1]", "[4,8]") + "}";
  const std::string whole = file_of(header, 8);
  int refused = 0;
  const auto look = [&](const std::string& bytes) {
    const std::string file = folder.file("x.safetensors", bytes);
    try {
      const TensorFile read = open_tensor_file(file);
      for (const StoredTensor& tensor : read.tensors) read_tensor(read, tensor, Precision::float32);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      ++refused;
    }
  };
  for (std::size_t size = 0; size < whole.size(); ++size) look(whole.substr(0, size));
  CHECK(refused == static_cast<int>(whole.size()));
  for (std::size_t byte = 0; byte < whole.size(); ++byte) {
    for (const int bit : {0, 3, 6}) {
      std::string flipped = whole;
      flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << bit));
      look(flipped);
    }
  }
  CHECK(refused > static_cast<int>(2 * whole.size()));
}

TEST_CASE("weights are not written over what is no ordinary file") {
  const TemporaryFolder folder;
  const auto backend = make_cpu_backend();
  const std::vector<NamedTensor> tensors{{"a", tensor_of(*backend, {1}, Precision::float32, {1})}};
  const std::filesystem::path pipe = folder.path() / "w.safetensors";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  try {
    write_tensor_file(pipe.string(), tensors);
    FAIL("a pipe was replaced by a file");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::execution);
    CHECK_THAT(error.what(),
               ContainsSubstring("w.safetensors: cannot be written: it is no ordinary file"));
  }
  CHECK(std::filesystem::is_fifo(pipe));
}

TEST_CASE("weights that cannot be written leave no half of a file") {
  const TemporaryFolder folder;
  const auto backend = make_cpu_backend();
  const std::vector<NamedTensor> tensors{{"a", tensor_of(*backend, {1}, Precision::float32, {1})}};
  try {
    write_tensor_file((folder.path() / "no/such/w.safetensors").string(), tensors);
    FAIL("written into a folder that is not there");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::execution);
    CHECK_THAT(error.what(), ContainsSubstring("w.safetensors: cannot be written"));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}
