// The suite for a machine with a GPU. It needs no test framework there, only this program, the CUDA
// module beside it and NVIDIA's libraries.

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "executor/backend.hpp"
#include "executor/execute.hpp"

namespace stagecraft::gpu {

/// What came out of one check, in words; `passed` says whether it may be so.
struct Outcome {
  std::string name;
  std::string words;
  bool passed = false;
};

/// Told after every check.
using Report = std::function<void(const Outcome&)>;

/// Every operation of `gpu` whose name has `only` in it, in fp32 and, if asked, bf16, beside the
/// CPU backend in fp64: the relative error in the 2-norm, at most 1e-5 and 1e-2. Inputs follow from
/// the seed. Twice each, with outputs full of what is no number: the same bits.
struct KernelChecks {
  std::string only;
  unsigned seed = 1;
  bool in_bf16 = true;
};
void check_kernels(Backend& gpu, const KernelChecks& checks, const Report& report);

/// What is trained, and where.
struct TrainingChecks {
  std::string model = "gpt2-124m";
  BackendKind backend = BackendKind::cuda;
  std::vector<Precision> precisions{Precision::float32, Precision::bfloat16};
  int steps = 50;
};
/// The losses of every step beside the CPU's in fp32: at most 0.1 % apart in fp32, 2 % in bf16.
/// Pipelines of 2 and 4 ranks on the device, and the same run again: bit for bit as one rank.
void check_training(const TrainingChecks& training, const Report& report);

}  // namespace stagecraft::gpu
