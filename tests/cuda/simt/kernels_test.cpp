// Every kernel of the CUDA module, carried out on the CPU by the lanes of its blocks.

#include <fstream>

#include "tests/cuda/simt/symbols.hpp"
#include "tests/cuda/simt/trials.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// What the assembler says it has made for the GPU.
std::set<std::string> kernels_of_module() {
  constexpr std::string_view before = "Compiling entry function '";
  std::set<std::string> names;
  std::ifstream file(STAGECRAFT_KERNEL_RESOURCES);
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(before);
    if (at == std::string::npos) continue;
    const std::string symbol = line.substr(at + before.size());
    names.insert(simt::kernel_name(symbol.substr(0, symbol.find('\''))));
  }
  return names;
}

}  // namespace

TEST_CASE("every kernel gives the numbers of plain formulas, and the same bits in any order",
          "[kernels][seconds]") {
  for (const auto& trials : {element_trials(), row_trials(), norm_trials(), operation_trials()}) {
    for (const Trial& trial : trials) {
      INFO(trial.name);
      trial.run();
    }
  }
  // None is left out.
  CHECK(kernels_of_module().size() > 60);
  for (const std::string& kernel : kernels_of_module()) {
    INFO("no trial carries out " << kernel);
    CHECK(kernels_tried().contains(kernel));
  }
}
