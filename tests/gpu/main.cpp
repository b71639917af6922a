#include <cstdlib>
#include <iostream>
#include <string_view>

#include "executor/backends/cuda.hpp"
#include "profiles/error.hpp"
#include "tests/gpu/checks.hpp"

using namespace stagecraft;

namespace {

constexpr const char* usage =
    "stagecraft_gpu_suite [kernels|training]     one part only\n"
    "\n"
    "Exits with 0 if all is well, 1 if a check failed, 2 if this was no use of it, and 77 if "
    "there\n"
    "is no GPU.\n";

/// Why there is no GPU; empty if there is one.
std::string missing_gpu() {
  try {
    make_cuda_backend(0);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view part = argc > 1 ? argv[1] : "all";
  if (argc > 2 || (part != "all" && part != "kernels" && part != "training")) {
    std::cerr << usage;
    return 2;
  }
  if (const std::string missing = missing_gpu(); !missing.empty()) {
    std::cout << "no GPU: " << missing << "\n";
    return 77;
  }
  int failed = 0;
  const auto report = [&](const gpu::Outcome& outcome) {
    std::cout << (outcome.passed ? "ok      " : "FAILED  ") << outcome.name << ": " << outcome.words
              << std::endl;
    if (!outcome.passed) ++failed;
  };
  try {
    if (part != "training") gpu::check_kernels(*make_cuda_backend(0), "", report);
    if (part != "kernels") gpu::check_training(5, report);
  } catch (const std::exception& error) {
    report({"suite", error.what(), false});
  }
  std::cout << (failed == 0 ? "all is well\n" : concat(failed, " failed\n"));
  return failed == 0 ? 0 : 1;
}
