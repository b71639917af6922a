// Datasheet figures. Rates are dense (no sparsity); bf16, fp16 and fp8 with fp32 accumulation;
// memory is what the driver reports in whole GiB, since the label's "80 GB" are GiB. `efficiency`
// is what large matrix products commonly reach, a round figure for the time before anything is
// measured.
//
// Collective bandwidths are ring "bus bandwidths" of the size nccl-tests reports on such machines;
// point-to-point ones are link rates in one direction. Both are datasheet-grade: measure to be
// sure.

#include "profiles/devices.hpp"

#include <algorithm>

#include "profiles/prefixes.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr double teraflops = 1e12;

Bandwidth gigabytes(std::int64_t rate) {
  return {rate * 1'000'000'000};
}
Bandwidth gigabits(std::int64_t rate) {
  return {rate * 125'000'000};
}

/// Peak rates in teraFLOP/s; 0 where the device has no such units.
struct Peaks {
  double fp64, fp32, bf16, fp16, fp8 = 0;
};

/// What a process has taken of a device before a plan's first tensor.
struct Reserve {
  std::int64_t mebibytes = 0;
  std::string_view source;
};

/// Buffers of NCCL grow with its channels, so with the links, and with communicators; plans do not
/// count them: three or more took 6 GB there.
constexpr Reserve nvswitch_reserve{
    1536,
    "CUDA's context and one NCCL communicator after an all-reduce, 1.6 GB: NVIDIA/nccl issue 864"};
constexpr Reserve eager_reserve{
    1024, "CUDA's context with all kernels loaded, 1 GB: pytorch/pytorch issues 28394 and 107667"};
constexpr Reserve lazy_reserve{
    512, "CUDA's context with kernels loaded as needed, from 300 MB: pytorch/pytorch issue 107667"};

struct Row {
  std::string_view name;
  std::int64_t memory_gib;
  Peaks peaks;
  std::int64_t memory_bandwidth;  ///< GB/s
  double efficiency;
  KindLinks links;
  std::string_view source;
  Reserve reserve = {};
};

Link link(std::int64_t latency_ns, Bandwidth point_to_point, Bandwidth collective) {
  return {Duration(latency_ns), point_to_point, collective};
}

const Link pcie3 = link(10'000, gigabytes(12), gigabytes(10));
const Link pcie4 = link(10'000, gigabytes(24), gigabytes(20));
const Link infiniband_edr = link(5'000, gigabits(100), gigabits(100));
const Link infiniband_hdr = link(5'000, gigabits(200), gigabits(200));
const Link infiniband_ndr = link(5'000, gigabits(400), gigabits(400));
const Link ethernet_10 = link(30'000, gigabits(10), gigabits(10));
const Link ethernet_25 = link(30'000, gigabits(25), gigabits(25));
const Link nvlink1 = link(8'000, gigabytes(20), gigabytes(60));
const Link nvlink2 = link(8'000, gigabytes(25), gigabytes(120));
const Link nvswitch_a100 = link(5'000, gigabytes(300), gigabytes(230));
const Link nvswitch_h100 = link(5'000, gigabytes(450), gigabytes(360));
const Link nvswitch_b200 = link(5'000, gigabytes(900), gigabytes(700));
const Link shared_memory = link(1'000, gigabytes(8), gigabytes(4));

const std::vector<Row>& rows() {
  static const std::vector<Row> table{
      {"p100",
       16,
       {5.3, 10.6, 0, 21.2},
       732,
       0.6,
       {nvlink1, infiniband_edr, 4},
       "NVIDIA Tesla P100 datasheet (SXM2)",
       eager_reserve},
      {"v100",
       16,
       {7.8, 15.7, 0, 125},
       900,
       0.6,
       {nvlink2, infiniband_edr, 4},
       "NVIDIA V100 datasheet (SXM2, 16 GB)",
       eager_reserve},
      {"v100-32gb",
       32,
       {7.8, 15.7, 0, 125},
       900,
       0.6,
       {nvlink2, infiniband_edr, 4},
       "NVIDIA V100 datasheet (SXM2, 32 GB)",
       eager_reserve},
      {"v100-pcie",
       16,
       {7.0, 14.0, 0, 112},
       900,
       0.6,
       {pcie3, ethernet_10},
       "NVIDIA V100 datasheet (PCIe, 16 GB)",
       eager_reserve},
      {"a100",
       40,
       {9.7, 19.5, 312, 312},
       1555,
       0.65,
       {nvswitch_a100, infiniband_hdr, 8},
       "NVIDIA A100 datasheet (SXM4, 40 GB)",
       nvswitch_reserve},
      {"a100-80gb",
       80,
       {9.7, 19.5, 312, 312},
       2039,
       0.65,
       {nvswitch_a100, infiniband_hdr, 8},
       "NVIDIA A100 datasheet (SXM4, 80 GB)",
       nvswitch_reserve},
      {"h100",
       80,
       {34, 67, 989, 989, 1979},
       3350,
       0.6,
       {nvswitch_h100, infiniband_ndr, 8},
       "NVIDIA H100 datasheet (SXM5)",
       nvswitch_reserve},
      {"h200",
       140,
       {34, 67, 989, 989, 1979},
       4800,
       0.6,
       {nvswitch_h100, infiniband_ndr, 8},
       "NVIDIA H200 datasheet (SXM5)",
       nvswitch_reserve},
      {"b200",
       178,
       {37, 75, 2250, 2250, 4500},
       7700,
       0.6,
       {nvswitch_b200, infiniband_ndr, 8},
       "NVIDIA HGX B200 datasheet",
       nvswitch_reserve},
      // 186 GB of HBM3e, of which the driver reports 185 GiB; NVLink joins 72 devices, each with a
      // port of its own.
      {"gb200",
       185,
       {40, 80, 2500, 2500, 5000},
       8000,
       0.6,
       {nvswitch_b200, infiniband_ndr, 72, 72},
       "NVIDIA GB200 NVL72 datasheet, per GPU, dense; ConnectX-7 ports",
       nvswitch_reserve},
      {"rtx4090",
       24,
       {1.29, 82.6, 165.2, 165.2, 330.3},
       1008,
       0.8,
       {pcie4, ethernet_25},
       "NVIDIA Ada GPU architecture whitepaper (GeForce RTX 4090)",
       lazy_reserve},
      {"cpu",
       4,
       {0.048, 0.096, 0, 0},
       10,
       0.5,
       {shared_memory, ethernet_10},
       "one core at 3 GHz with two AVX2 FMA units; no particular product"},
  };
  return table;
}

DeviceKind generic_kind() {
  return {.name = "generic",
          .memory_unlimited = true,
          .memory_bandwidth = Bandwidth::unlimited(),
          .generic = true,
          .source = "runs a profile's times as they stand"};
}

[[noreturn]] void fail_unknown_kind(std::string_view name) {
  fail_unknown("device kind", name, builtin_device_kinds());
}

}  // namespace

std::vector<std::string> builtin_device_kinds() {
  std::vector<std::string> names;
  for (const Row& row : rows()) names.emplace_back(row.name);
  names.emplace_back("generic");
  return names;
}

DeviceKind builtin_device_kind(std::string_view name) {
  if (name == "generic") return generic_kind();
  for (const Row& row : rows()) {
    if (row.name != name) continue;
    return {.name = std::string(row.name),
            .memory = row.memory_gib * gibi,
            .flops_fp64 = row.peaks.fp64 * teraflops,
            .flops_fp32 = row.peaks.fp32 * teraflops,
            .flops_bf16 = row.peaks.bf16 * teraflops,
            .flops_fp16 = row.peaks.fp16 * teraflops,
            .flops_fp8 = row.peaks.fp8 * teraflops,
            .memory_bandwidth = gigabytes(row.memory_bandwidth),
            .efficiency = row.efficiency,
            .source = std::string(row.source),
            .reserve = row.reserve.mebibytes * mebi,
            .reserve_source = std::string(row.reserve.source)};
  }
  fail_unknown_kind(name);
}

KindLinks builtin_links(std::string_view name) {
  if (name == "generic") return {};
  for (const Row& row : rows()) {
    if (row.name == name) return row.links;
  }
  fail_unknown_kind(name);
}

std::string device_kind_named(std::string_view text) {
  std::string word(text);
  std::ranges::transform(word, word.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  if (word.find("a100") != std::string::npos)
    return word.find("80gb") != std::string::npos ? "a100-80gb" : "a100";
  // "gb200" holds "b200", so it comes first.
  for (const std::string_view name : {"p100", "v100", "h100", "h200", "gb200", "b200"}) {
    if (word.find(name) != std::string::npos) return std::string(name);
  }
  return word.find("4090") != std::string::npos ? "rtx4090" : "";
}

}  // namespace stagecraft
