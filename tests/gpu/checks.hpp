// The suite for a machine with a GPU. It needs no test framework there, only this program, the CUDA
// module beside it and NVIDIA's libraries.

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "executor/backend.hpp"

namespace stagecraft::gpu {

/// What came out of one check, in words; `passed` says whether it may be so.
struct Outcome {
  std::string name;
  std::string words;
  bool passed = false;
};

/// Told after every check.
using Report = std::function<void(const Outcome&)>;

/// Every operation of `gpu` whose name has `only` in it, in fp32 and bf16, beside the CPU backend
/// in fp64: the relative error in the 2-norm, at most 1e-5 and 1e-2. Twice each, with outputs full
/// of what is no number: the same bits.
void check_kernels(Backend& gpu, std::string_view only, const Report& report);

/// GPT-2 124M for `steps` steps: the losses of fp32 and bf16 beside the CPU's in fp32, and a
/// pipeline of two ranks on the GPU beside one, bit for bit.
void check_training(int steps, const Report& report);

}  // namespace stagecraft::gpu
