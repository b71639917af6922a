// The suite for a machine with a GPU. It needs no test framework there, only this program, the CUDA
// module beside it and NVIDIA's libraries.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "executor/backends/backend.hpp"
#include "executor/driver/execute.hpp"

namespace stagecraft::gpu {

/// What came out of one check, in words; `passed` says whether it may be so.
struct Outcome {
  std::string name;
  std::string words;
  bool passed = false;
  bool asked = true;  ///< false: it is told, and nothing is asked of it
};

/// Told after every check.
using Report = std::function<void(const Outcome&)>;
/// Asked before every check, by its name; empty: all are wanted.
using Wanted = std::function<bool(const std::string&)>;
inline bool is_wanted(const Wanted& wanted, const std::string& name) {
  return !wanted || wanted(name);
}

/// A backend for a rank, as `make_cuda_backend` makes them.
using Maker = std::function<std::unique_ptr<Backend>(int rank, const CudaOptions&)>;

/// What everything else rests on, in seconds: a product, a norm, attention, a graph, events, and
/// the same on a part of the multiprocessors.
struct SmokeChecks {
  Maker make;
  Precision precision = Precision::bfloat16;
  AttentionShape attention{
      .samples = 8, .sequence = 1024, .heads = 12, .key_value_heads = 12, .head_width = 64};
  std::int64_t width = 4096;  ///< of the square product that is timed
  Wanted wanted = {};
};
void check_smoke(const SmokeChecks& checks, const Report& report);

/// Every operation of `gpu` whose name has `only` in it, in fp32 and, if asked, bf16, beside the
/// CPU backend in fp64: the relative error in the 2-norm, at most 1e-5 and 1e-2. Inputs follow from
/// the seed. Twice each, with outputs full of what is no number: the same bits.
struct KernelChecks {
  std::string only;
  unsigned seed = 1;
  bool in_bf16 = true;
  Wanted wanted = {};
};
void check_kernels(Backend& gpu, const KernelChecks& checks, const Report& report);

/// Attention of real sizes, three times: the same bits if it is to be deterministic; told if not.
/// Two heads of one sample beside the CPU in fp64.
struct AttentionChecks {
  Maker make;
  Precision precision = Precision::bfloat16;
  std::vector<AttentionShape> shapes{
      {.samples = 8, .sequence = 1024, .heads = 12, .key_value_heads = 12, .head_width = 64},
      {.samples = 4, .sequence = 2048, .heads = 16, .key_value_heads = 16, .head_width = 128}};
  unsigned seed = 1;
  Wanted wanted = {};
};
void check_attention(const AttentionChecks& checks, const Report& report);

/// Products, losses and norms of real sizes: 64 rows of each result beside the CPU in fp64, and how
/// long they take.
struct SizeChecks {
  Maker make;
  std::vector<Precision> precisions{Precision::bfloat16, Precision::float32};
  std::int64_t rows = 8192;
  std::vector<std::int64_t> widths{768, 2048};
  std::int64_t vocabulary = 50304;
  Wanted wanted = {};
};
void check_sizes(const SizeChecks& checks, const Report& report);

/// What is trained, and where. Vocabularies are padded, so that rows of logits are aligned.
struct TrainingChecks {
  std::string model = "gpt2-124m";
  std::int64_t vocabulary = 50304;
  BackendKind backend = BackendKind::cuda;
  std::string device = "h200";  ///< of the cluster that is planned for
  std::vector<Precision> precisions{Precision::bfloat16, Precision::float32};
  int steps = 20;
  /// Losses on the CPU in fp32, if they are known.
  std::vector<double> expected = {};
  Wanted wanted = {};
};
/// The losses of every step beside the CPU's in fp32: at most 0.1 % apart in fp32, 2 % in bf16.
/// The same run again, and pipelines of 2 and 4 ranks on the device: bit for bit as one rank.
void check_training(const TrainingChecks& checks, const Report& report);
/// Pipelines of 1, 2 and 4 ranks, with and without graphs and parts of the multiprocessors, by 1f1b
/// and zb-h1: bit for bit as one rank; its losses beside the CPU's.
void check_pipelines(const TrainingChecks& checks, const Report& report);
/// The losses that `check_training` compares with.
std::vector<double> losses_on_cpu(const TrainingChecks& checks);

}  // namespace stagecraft::gpu
