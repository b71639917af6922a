// What the assembler says that the kernels take, for the first of the architectures built for.

#include <fstream>
#include <regex>
#include <string>

#include "tests/catch.hpp"

namespace {

/// Three blocks of 256 threads and more fit on a multiprocessor with these, of its 65,536.
constexpr int most_registers = 80;
/// Of norms' backward passes, which keep sums of columns for each lane: one block.
constexpr int most_of_sums = 255;

struct Resources {
  int kernels = 0;
  int spilled = 0;  ///< bytes, of all kernels
  int stack = 0;
  int registers = 0;          ///< of the kernel with most
  int registers_of_sums = 0;  ///< likewise, of those that keep sums
};

Resources read_resources() {
  static const std::regex frame(
      R"((\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads)");
  static const std::regex used(R"(Used (\d+) registers)");
  bool keeps_sums = false;
  Resources resources;
  std::ifstream file(STAGECRAFT_KERNEL_RESOURCES);
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (line.find("Compiling entry function") != std::string::npos) {
      keeps_sums = line.find("norm_backward") != std::string::npos;
    }
    if (std::regex_search(line, match, frame)) {
      resources.stack += std::stoi(match[1]);
      resources.spilled += std::stoi(match[2]) + std::stoi(match[3]);
    }
    if (std::regex_search(line, match, used)) {
      ++resources.kernels;
      int& most = keeps_sums ? resources.registers_of_sums : resources.registers;
      most = std::max(most, std::stoi(match[1]));
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
  CHECK(resources.registers_of_sums <= most_of_sums);
}
