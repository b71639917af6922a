// What the assembler says that the kernels take, for the first of the architectures built for.

#include <fstream>
#include <regex>
#include <string>

#include "tests/catch.hpp"

namespace {

/// Two blocks of 256 threads and more fit on a multiprocessor with these, of its 65,536.
constexpr int most_registers = 64;

struct Resources {
  int kernels = 0;
  int spilled = 0;  ///< bytes, of all kernels
  int stack = 0;
  int registers = 0;  ///< of the kernel with most
};

Resources read_resources() {
  static const std::regex frame(
      R"((\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads)");
  static const std::regex used(R"(Used (\d+) registers)");
  Resources resources;
  std::ifstream file(STAGECRAFT_KERNEL_RESOURCES);
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_search(line, match, frame)) {
      resources.stack += std::stoi(match[1]);
      resources.spilled += std::stoi(match[2]) + std::stoi(match[3]);
    }
    if (std::regex_search(line, match, used)) {
      ++resources.kernels;
      resources.registers = std::max(resources.registers, std::stoi(match[1]));
    }
  }
  return resources;
}

}  // namespace

TEST_CASE("kernels keep their numbers in registers") {
  const Resources resources = read_resources();
  CHECK(resources.kernels > 60);  // every kernel for fp32 and for bf16
  CHECK(resources.spilled == 0);
  CHECK(resources.stack == 0);
  CHECK(resources.registers <= most_registers);
}
