#include <cstdlib>
#include <iostream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/backends/cuda.hpp"
#include "profiles/error.hpp"
#include "tests/gpu/checks.hpp"

using namespace stagecraft;

namespace {

constexpr const char* usage =
    "stagecraft_gpu_suite [kernels|training] [--rehearse] [--seed N]\n"
    "\n"
    "One part only, or both. --rehearse: on the CPU, with a tiny model. --seed: inputs of kernels\n"
    "that were told to be wrong. Exits with 0 if all is well, 1 if a check failed, 2 if this was "
    "no\n"
    "use of it, and 77 if there is no GPU.\n";

struct Arguments {
  std::string_view part = "all";
  bool rehearse = false;
  unsigned seed = std::random_device{}();
  bool understood = true;
};

Arguments read_arguments(std::span<char*> words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--rehearse") {
      arguments.rehearse = true;
    } else if (word == "--seed" && i + 1 < words.size()) {
      arguments.seed = static_cast<unsigned>(std::strtoul(words[++i], nullptr, 10));
    } else if (word == "kernels" || word == "training") {
      arguments.part = word;
    } else {
      arguments.understood = false;
    }
  }
  return arguments;
}

/// Why there is no GPU; empty if there is one.
std::string missing_gpu() {
  try {
    make_cuda_backend(0);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void check(const Arguments& arguments, const gpu::Report& report) {
  if (arguments.part != "training") {
    std::cout << "inputs of --seed " << arguments.seed << "\n";
    const auto backend = arguments.rehearse ? make_cpu_backend() : make_cuda_backend(0);
    gpu::check_kernels(*backend, {.seed = arguments.seed, .in_bf16 = !arguments.rehearse}, report);
  }
  if (arguments.part == "kernels") return;
  gpu::TrainingChecks training;
  if (arguments.rehearse) {
    training = {.model = "tiny-gpt",
                .backend = BackendKind::cpu,
                .precisions = {Precision::float32},
                .steps = 5};
  }
  gpu::check_training(training, report);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments =
      read_arguments(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
  if (!arguments.understood) {
    std::cerr << usage;
    return 2;
  }
  if (const std::string missing = arguments.rehearse ? "" : missing_gpu(); !missing.empty()) {
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
    check(arguments, report);
  } catch (const std::exception& error) {
    report({"suite", error.what(), false});
  }
  std::cout << (failed == 0 ? "all is well\n" : concat(failed, " failed\n"));
  return failed == 0 ? 0 : 1;
}
