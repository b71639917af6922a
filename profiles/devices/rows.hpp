// The built-in kinds of devices as their tables have them. For the sources of this folder, and
// devices.cpp.
//
// Datasheet figures. Rates are dense (no sparsity); bf16, fp16 and fp8 with fp32 accumulation;
// memory is what a process is told (`ReportedMemory`), each with its source. `efficiency`
// is what large matrix products commonly reach, a round figure for the time before anything is
// measured.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "profiles/devices.hpp"

namespace stagecraft::devices {

/// Peak rates in teraFLOP/s; 0 where the device has no such units.
struct Peaks {
  double fp64, fp32, bf16, fp16, fp8 = 0;
};

/// What CUDA or HIP tell a process that a device has (cudaMemGetInfo, total_memory of PyTorch's
/// device properties, "total capacity" of its out-of-memory messages): less than the label and than
/// nvidia-smi say. The least of what was seen.
struct ReportedMemory {
  double gib = 0;
  std::string_view source;
};

/// What no plan gets, by its use.
struct Reserve {
  std::int64_t context = 0;       ///< MiB
  std::int64_t communicator = 0;  ///< MiB
  std::string_view source;
};

/// One kind.
struct Row {
  std::string_view name;
  /// Whole names of products, in lower case, words apart, without "nvidia", "amd", "tesla" and
  /// "geforce".
  std::vector<std::string_view> products;
  ReportedMemory memory;
  Peaks peaks;
  std::int64_t memory_bandwidth;  ///< GB/s
  double efficiency;
  KindLinks links;
  DeviceFabric fabric;
  std::string_view source;
  Reserve reserve = {};
};

/// All kinds but "generic", in the order in which they are listed.
const std::vector<Row>& all_rows();

/// NVIDIA's devices for training: V100, A100, H100 and their like, in boxes or in slots.
std::vector<Row> nvidia_accelerators();
/// NVIDIA's devices for inference, graphics and games, each in a slot.
std::vector<Row> nvidia_cards();
/// AMD's Instinct devices, and a core of a CPU.
std::vector<Row> other_devices();

}  // namespace stagecraft::devices
