// Datasheet figures. Rates are dense (no sparsity); bf16, fp16 and fp8 with fp32 accumulation;
// memory is what a process is told (`ReportedMemory`), each with its source. `efficiency`
// is what large matrix products commonly reach, a round figure for the time before anything is
// measured.
//
// Collective bandwidths are ring "bus bandwidths" of the size nccl-tests reports on such machines;
// point-to-point ones are link rates in one direction. Both are datasheet-grade: measure to be
// sure.

#include "profiles/devices.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <initializer_list>

#include "profiles/error.hpp"
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

/// Buffers of NCCL grow with its channels, so with the links, and with communicators; plans do not
/// count them: three or more took 6 GB there.
constexpr Reserve nvswitch_reserve{
    512, 1024,
    "512MiB are CUDA's context, 1GiB one NCCL communicator after an all-reduce (together 1.6 GB: "
    "NVIDIA/nccl issue 864)"};
constexpr Reserve eager_reserve{
    1024, 0,
    "1GiB are CUDA's context with all kernels loaded (pytorch/pytorch issues 28394 and 107667)"};
constexpr Reserve lazy_reserve{512, 0,
                               "512MiB are CUDA's context with kernels loaded as needed, from 300 "
                               "MB on (pytorch/pytorch issue "
                               "107667)"};
constexpr Reserve hip_reserve{512, 0, "512MiB are HIP's context, taken as large as CUDA's"};

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
const Link pcie5 = link(10'000, gigabytes(48), gigabytes(40));
/// Where devices reach each other through the host's memory only.
const Link pcie4_without_peers = link(15'000, gigabytes(12), gigabytes(8));
const Link infiniband_xdr = link(5'000, gigabits(800), gigabits(800));
const Link nvswitch_a800 = link(5'000, gigabytes(200), gigabytes(155));
const Link nvswitch_h800 = link(5'000, gigabytes(200), gigabytes(160));
/// Between dies of a box of four accelerators, where most pairs have one link.
const Link xgmi_mi250x = link(8'000, gigabytes(50), gigabytes(90));
const Link xgmi_mi300x = link(8'000, gigabytes(64), gigabytes(310));
const Link xgmi_mi355x = link(8'000, gigabytes(76), gigabytes(370));

constexpr DeviceFabric slot_pcie3{.pcie = 12}, slot_pcie4{.pcie = 24}, slot_pcie5{.pcie = 48};
constexpr DeviceFabric nvlinks_p100{"NVLink", 4, 20, 18, 12}, nvlinks_v100{"NVLink", 6, 25, 20, 12},
    nvlinks_a100{"NVLink", 12, 25, 20, 24}, nvlinks_a800{"NVLink", 8, 25, 20, 24},
    nvlinks_h100{"NVLink", 18, 25, 20.6, 48}, nvlinks_h800{"NVLink", 8, 25, 20.6, 48},
    nvlinks_b200{"NVLink", 18, 50, 40.1, 48}, bridges_a100{"NVLink", 12, 25, 20, 24},
    bridges_h100{"NVLink", 12, 25, 20.6, 48}, bridges_rtx3090{"NVLink", 4, 14.0625, 12, 24};
/// RCCL's graph/topo.h: 36 and 48 GB/s of a link's 50 and 64.
constexpr DeviceFabric xgmi_links_mi250x{"xGMI", 8, 50, 36, 24},
    xgmi_links_mi300x{"xGMI", 7, 64, 48, 48}, xgmi_links_mi355x{"xGMI", 7, 76.8, 57.6, 48};

const std::vector<Row>& rows() {
  static const std::vector<Row> table{
      {"p100",
       {"p100 sxm2 16gb"},
       {15.90, "messages of 15.90 GiB in public logs of such devices"},
       {5.3, 10.6, 0, 21.2},
       732,
       0.6,
       {nvlink1, infiniband_edr, 4},
       nvlinks_p100,
       "NVIDIA Tesla P100 datasheet (SXM2)",
       eager_reserve},
      {"v100",
       {"v100 sxm2 16gb"},
       {15.75, "15.75 and 15.78: Morizeyao/GPT2-Chinese issue 215"},
       {7.8, 15.7, 0, 125},
       900,
       0.6,
       {nvlink2, infiniband_edr, 4},
       nvlinks_v100,
       "NVIDIA V100 datasheet (SXM2, 16 GB)",
       eager_reserve},
      {"v100-32gb",
       {"v100 sxm2 32gb", "v100 sxm3 32gb"},
       {31.74, "31.74 and 31.75: liucongg/ChatGLM-Finetuning issue 73, google/dynibar issue 8"},
       {7.8, 15.7, 0, 125},
       900,
       0.6,
       {nvlink2, infiniband_edr, 4},
       nvlinks_v100,
       "NVIDIA V100 datasheet (SXM2, 32 GB)",
       eager_reserve},
      {"v100-pcie",
       {"v100 pcie 16gb"},
       {15.75, "as of V100 SXM2: Morizeyao/GPT2-Chinese issue 215"},
       {7.0, 14.0, 0, 112},
       900,
       0.6,
       {pcie3, ethernet_10},
       slot_pcie3,
       "NVIDIA V100 datasheet (PCIe, 16 GB)",
       eager_reserve},
      {"v100-pcie-32gb",
       {"v100 pcie 32gb"},
       {31.74, "as of V100 SXM2: liucongg/ChatGLM-Finetuning issue 73"},
       {7.0, 14.0, 0, 112},
       900,
       0.6,
       {pcie3, ethernet_10},
       slot_pcie3,
       "NVIDIA V100 datasheet (PCIe, 32 GB)",
       eager_reserve},
      {"a100",
       {"a100 sxm4 40gb"},
       {39.50, "TianheWu/CoSeR issue 10"},
       {9.7, 19.5, 312, 312},
       1555,
       0.65,
       {nvswitch_a100, infiniband_hdr, 8},
       nvlinks_a100,
       "NVIDIA A100 datasheet (SXM4, 40 GB)",
       nvswitch_reserve},
      {"a100-80gb",
       {"a100 sxm4 80gb"},
       {79.25, "levihsu/OOTDiffusion issue 235"},
       {9.7, 19.5, 312, 312},
       2039,
       0.65,
       {nvswitch_a100, infiniband_hdr, 8},
       nvlinks_a100,
       "NVIDIA A100 datasheet (SXM4, 80 GB)",
       nvswitch_reserve},
      {"a100-pcie",
       {"a100 pcie 40gb"},
       {39.50, "as of A100 SXM4: TianheWu/CoSeR issue 10"},
       {9.7, 19.5, 312, 312},
       1555,
       0.6,
       {pcie4, infiniband_hdr},
       bridges_a100,
       "NVIDIA A100 datasheet (PCIe, 40 GB)",
       lazy_reserve},
      {"a100-pcie-80gb",
       {"a100 80gb pcie"},
       {79.25, "as of A100 SXM4: levihsu/OOTDiffusion issue 235"},
       {9.7, 19.5, 312, 312},
       1935,
       0.6,
       {pcie4, infiniband_hdr},
       bridges_a100,
       "NVIDIA A100 datasheet (PCIe, 80 GB)",
       lazy_reserve},
      {"a800",
       {"a800 sxm4 80gb"},
       {79.33, "hahnyuan/PB-LLM issue 3"},
       {9.7, 19.5, 312, 312},
       2039,
       0.65,
       {nvswitch_a800, infiniband_hdr, 8},
       nvlinks_a800,
       "NVIDIA A800 datasheet (SXM4, 80 GB): 400 GB/s of NVLink both ways",
       nvswitch_reserve},
      // "dgx h100" is a machine, as submissions to MLPerf name it; its devices have 80 GB.
      {"h100",
       {"h100 80gb hbm3", "h100 sxm5 80gb", "h100 sxm 80gb", "dgx h100"},
       {79.11, "vllm-project/vllm issue 27508"},
       {34, 67, 989, 989, 1979},
       3350,
       0.6,
       {nvswitch_h100, infiniband_ndr, 8},
       nvlinks_h100,
       "NVIDIA H100 datasheet (SXM5)",
       nvswitch_reserve},
      {"h100-96gb",
       {"h100", "h100 96gb hbm3"},
       {94.50, "a public log of vLLM, \"OOM error on 96GB H100\"; 95.04 in one of torchtitan"},
       {34, 67, 989, 989, 1979},
       2400,
       0.6,
       {nvswitch_h100, infiniband_ndr, 8},
       nvlinks_h100,
       "NVIDIA H100 datasheet (SXM5); 96 GB of HBM2e at 2.4 TB/s: torchtitan, docs/performance",
       nvswitch_reserve},
      {"h100-pcie",
       {"h100 pcie"},
       {79.11, "as of H100 SXM5: vllm-project/vllm issue 27508"},
       {26, 51, 756, 756, 1513},
       2000,
       0.6,
       {pcie5, infiniband_ndr},
       bridges_h100,
       "NVIDIA H100 datasheet (PCIe)",
       lazy_reserve},
      {"h100-nvl",
       {"h100 nvl"},
       {93.00, "ali-vilab/VACE issue 56"},
       {30, 60, 835, 835, 1671},
       3900,
       0.6,
       {pcie5, infiniband_ndr},
       bridges_h100,
       "NVIDIA H100 datasheet (NVL)",
       lazy_reserve},
      {"h20",
       {"h20"},
       {95.00, "modelscope/DiffSynth-Studio issue 1238"},
       {1, 44, 148, 148, 296},
       4000,
       0.8,
       {nvswitch_h100, infiniband_ndr, 8},
       nvlinks_h100,
       "NVIDIA H20 datasheet (SXM5)",
       nvswitch_reserve},
      {"h800",
       {"h800"},
       {79.11, "as of H100 SXM5: vllm-project/vllm issue 27508"},
       {1, 67, 989, 989, 1979},
       3350,
       0.6,
       {nvswitch_h800, infiniband_ndr, 8},
       nvlinks_h800,
       "NVIDIA H800 datasheet (SXM5): 400 GB/s of NVLink both ways",
       nvswitch_reserve},
      {"h200",
       {"h200"},
       {139.72, "messages of 139.72 to 139.81 GiB in public logs of such devices"},
       {34, 67, 989, 989, 1979},
       4800,
       0.6,
       {nvswitch_h100, infiniband_ndr, 8},
       nvlinks_h100,
       "NVIDIA H200 datasheet (SXM5)",
       nvswitch_reserve},
      // Boxes of one device each, unless NVLink switches join several.
      {"gh200",
       {"gh200 480gb", "gh200 120gb"},
       {94.50, "94.88 in Lightning-AI/litgpt issue 1892, less where more of it is kept"},
       {34, 67, 989, 989, 1979},
       4000,
       0.6,
       {nvswitch_h100, infiniband_ndr},
       nvlinks_h100,
       "NVIDIA GH200 datasheet (96 GB of HBM3)",
       nvswitch_reserve},
      {"b200",
       {"b200"},
       {178.35, "stas00/ml-engineering, debug/pytorch"},
       {37, 75, 2250, 2250, 4500},
       7700,
       0.6,
       {nvswitch_b200, infiniband_ndr, 8},
       nvlinks_b200,
       "NVIDIA HGX B200 datasheet",
       nvswitch_reserve},
      // NVLink joins 72 devices, each with a port of its own.
      {"gb200",
       {"gb200"},
       {184.31, "public logs of vLLM on GB200"},
       {40, 80, 2500, 2500, 5000},
       8000,
       0.6,
       {nvswitch_b200, infiniband_ndr, 72, 72},
       nvlinks_b200,
       "NVIDIA GB200 NVL72 datasheet, per GPU, dense; ConnectX-7 ports",
       nvswitch_reserve},
      {"b300",
       {"b300 sxm6 ac", "b300"},
       {267.69, "public logs of vLLM and Megatron on B300"},
       {1.2, 75, 2250, 2250, 4500},
       8000,
       0.6,
       {nvswitch_b200, infiniband_xdr, 8},
       nvlinks_b200,
       "NVIDIA HGX B300 datasheet, per GPU, dense; ConnectX-8 ports",
       nvswitch_reserve},
      {"gb300",
       {"gb300"},
       {276.50, "stas00/ml-engineering, debug/pytorch (GB300)"},
       {1.3, 80, 2500, 2500, 5000},
       8000,
       0.6,
       {nvswitch_b200, infiniband_xdr, 72, 72},
       nvlinks_b200,
       "NVIDIA GB300 NVL72 datasheet, per GPU, dense; ConnectX-8 ports",
       nvswitch_reserve},
      {"l4",
       {"l4"},
       {22.03, "public logs of L4 (22.03 and 22.04 GiB)"},
       {0.49, 30.3, 121, 121, 242},
       300,
       0.5,
       {pcie4_without_peers, ethernet_25},
       slot_pcie4,
       "NVIDIA L4 datasheet",
       lazy_reserve},
      {"l40s",
       {"l40s"},
       {44.39,
        "messages of 44.39 to 44.52 GiB in public logs; L40 44.40 in QwenLM/Qwen3-VL issue 2097"},
       {1.4, 91.6, 362, 362, 733},
       864,
       0.6,
       {pcie4, infiniband_hdr},
       slot_pcie4,
       "NVIDIA L40S datasheet",
       lazy_reserve},
      {"a10",
       {"a10"},
       {22.06, "public logs of A10"},
       {0.97, 31.2, 125, 125},
       600,
       0.6,
       {pcie4, ethernet_25},
       slot_pcie4,
       "NVIDIA A10 datasheet",
       lazy_reserve},
      {"a10g",
       {"a10g"},
       {22.06, "22.20 in h2oai/h2ogpt issue 48, 22.06 with newer drivers"},
       {0.97, 35, 70, 70},
       600,
       0.7,
       {pcie4, ethernet_25},
       slot_pcie4,
       "Amazon EC2 G5 instances (A10G)",
       lazy_reserve},
      {"t4",
       {"t4"},
       {14.75, "hpcaitech/Open-Sora issue 697"},
       {0.25, 8.1, 0, 65},
       320,
       0.5,
       {pcie3, ethernet_25},
       slot_pcie3,
       "NVIDIA T4 datasheet",
       lazy_reserve},
      {"rtx3090",
       {"rtx 3090"},
       {23.68, "as of RTX 4090: zai-org/CogVideo issue 36"},
       {0.56, 35.6, 71, 71},
       936,
       0.8,
       {pcie4_without_peers, ethernet_25},
       bridges_rtx3090,
       "NVIDIA GA102 whitepaper (GeForce RTX 3090)",
       lazy_reserve},
      {"rtx4090",
       {"rtx 4090"},
       {23.64, "23.68 in zai-org/CogVideo issue 36, 23.64 with newer drivers"},
       {1.29, 82.6, 165.2, 165.2, 330.3},
       1008,
       0.8,
       {pcie4, ethernet_25},
       slot_pcie4,
       "NVIDIA Ada GPU architecture whitepaper (GeForce RTX 4090)",
       lazy_reserve},
      {"rtx5090",
       {"rtx 5090"},
       {31.36, "31.37 in Wan-Video/Wan2.1 issue 465, from 31.34 on in public logs"},
       {1.64, 104.8, 209.5, 209.5, 419},
       1792,
       0.8,
       {pcie5, ethernet_25},
       slot_pcie5,
       "NVIDIA RTX Blackwell GPU architecture whitepaper (GeForce RTX 5090)",
       lazy_reserve},
      {"mi250x",
       {"instinct mi250x"},
       {63.98, "public logs of MI250X, per die"},
       {23.9, 23.9, 191.5, 191.5},
       1638,
       0.5,
       {xgmi_mi250x, infiniband_hdr, 8, 8},
       xgmi_links_mi250x,
       "AMD Instinct MI250X datasheet, per die (GCD), of which an accelerator has two",
       hip_reserve},
      {"mi300x",
       {"instinct mi300x", "instinct mi300x oam"},
       {191.69, "191.98 in ROCm's tutorials, 191.69 with newer drivers"},
       {81.7, 163.4, 1307, 1307, 2615},
       5300,
       0.5,
       {xgmi_mi300x, infiniband_ndr, 8},
       xgmi_links_mi300x,
       "AMD Instinct MI300X datasheet",
       hip_reserve},
      {"mi325x",
       {"instinct mi325x"},
       {255.69, "255.69 and 255.98 in public logs of MI325X"},
       {81.7, 163.4, 1307, 1307, 2615},
       6000,
       0.5,
       {xgmi_mi300x, infiniband_ndr, 8},
       xgmi_links_mi300x,
       "AMD Instinct MI325X datasheet",
       hip_reserve},
      {"mi355x",
       {"instinct mi355x"},
       {287.98, "public logs of MI355X"},
       {78.6, 157.3, 2516, 2516, 5033},
       8000,
       0.5,
       {xgmi_mi355x, infiniband_ndr, 8},
       xgmi_links_mi355x,
       "AMD Instinct MI355X datasheet",
       hip_reserve},
      {"cpu",
       {},
       {4, ""},
       {0.048, 0.096, 0, 0},
       10,
       0.5,
       {shared_memory, ethernet_10},
       {},
       "one core at 3 GHz with two AVX2 FMA units; no particular product"},
  };
  return table;
}

struct GenerationKinds {
  std::string_view name;   ///< compute capability in tenths, or an instruction set of AMD
  std::string_view kinds;  ///< the most frequent one first
};
constexpr std::array generations{
    GenerationKinds{"60", "p100"},
    GenerationKinds{"70", "v100 v100-32gb v100-pcie v100-pcie-32gb"},
    GenerationKinds{"75", "t4"},
    GenerationKinds{"80", "a100-80gb a100 a100-pcie a100-pcie-80gb a800"},
    GenerationKinds{"86", "a10 a10g rtx3090"},
    GenerationKinds{"89", "rtx4090 l4 l40s"},
    GenerationKinds{"90", "h100 h200 h100-96gb h100-pcie h100-nvl h20 h800 gh200"},
    GenerationKinds{"100", "b200 gb200"},
    GenerationKinds{"103", "b300 gb300"},
    GenerationKinds{"120", "rtx5090"},
    GenerationKinds{"gfx90a", "mi250x"},
    GenerationKinds{"gfx942", "mi300x mi325x"},
    GenerationKinds{"gfx950", "mi355x"},
};

/// "NVIDIA A100-SXM4-80GB" as a100 sxm4 80gb; the vendors stay if `with_vendors`.
std::vector<std::string> product_words(std::string_view text, bool with_vendors = false) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool part = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.';
    if (part) {
      words.back() += static_cast<char>(upper ? c - 'A' + 'a' : c);
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  if (!with_vendors) {
    std::erase_if(words, [](const std::string& word) {
      return word == "nvidia" || word == "amd" || word == "tesla" || word == "geforce";
    });
  }
  return words;
}

/// Whether the name stands behind its vendor's, and no word behind it makes it another product.
bool stands_in(const std::vector<std::string>& name, const std::vector<std::string>& words) {
  const auto is_any = [](const std::string& word, std::initializer_list<std::string_view> known) {
    return std::ranges::find(known, word) != known.end();
  };
  for (std::size_t at = 1; at + name.size() <= words.size(); ++at) {
    if (!is_any(words[at - 1], {"nvidia", "amd", "tesla", "geforce"})) continue;
    if (!std::equal(name.begin(), name.end(), words.begin() + static_cast<std::ptrdiff_t>(at)))
      continue;
    if (at + name.size() == words.size()) return true;
    const std::string& next = words[at + name.size()];
    const bool other = is_any(next, {"pcie", "nvl", "mig", "ti", "super", "d", "laptop", "max",
                                     "mobile", "ada", "grid", "hbm3", "hbm2e"}) ||
                       next.starts_with("sxm") || (next.ends_with("gb") && next.size() <= 5);
    if (!other) return true;
  }
  return false;
}

DeviceKind generic_kind() {
  return {.name = "generic",
          .memory_unlimited = true,
          .memory_bandwidth = Bandwidth::unlimited(),
          .generic = true,
          .source = "runs a profile's times as they stand"};
}

Bytes in_mebibytes(double mebibytes) {
  return std::llround(mebibytes) * mebi;
}

Bytes reported(const Row& row) {
  return in_mebibytes(row.memory.gib * 1024);
}

/// Nothing of what runs without a driver.
Bytes reserve_of(const Row& row) {
  if (row.reserve.source.empty()) return 0;
  return (row.reserve.context + row.reserve.communicator) * mebi;
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

std::string builtin_device_kind_called(std::string_view given) {
  std::string name = lower_case(given);
  // The memory that a kind has is no part of its name where it came with one size first.
  constexpr std::array whole_names{std::pair{"a100-40gb", "a100"}, std::pair{"v100-16gb", "v100"},
                                   std::pair{"h100-80gb", "h100"}, std::pair{"h200-141gb", "h200"},
                                   std::pair{"t4-16gb", "t4"}};
  for (const auto& [whole, known] : whole_names) {
    if (name == whole) name = known;
  }
  const std::vector<std::string> known = builtin_device_kinds();
  return std::ranges::count(known, name) > 0 ? name : std::string(given);
}

DeviceKind builtin_device_kind(std::string_view given) {
  const std::string name = builtin_device_kind_called(given);
  if (name == "generic") return generic_kind();
  for (const Row& row : rows()) {
    if (row.name != name) continue;
    return {.name = std::string(row.name),
            .memory = reported(row),
            .flops_fp64 = row.peaks.fp64 * teraflops,
            .flops_fp32 = row.peaks.fp32 * teraflops,
            .flops_bf16 = row.peaks.bf16 * teraflops,
            .flops_fp16 = row.peaks.fp16 * teraflops,
            .flops_fp8 = row.peaks.fp8 * teraflops,
            .memory_bandwidth = gigabytes(row.memory_bandwidth),
            .efficiency = row.efficiency,
            .source = row.memory.source.empty()
                          ? std::string(row.source)
                          : concat(row.source, "; memory: ", row.memory.source),
            .reserve = reserve_of(row),
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

DeviceFabric builtin_fabric(std::string_view name) {
  if (name == "generic") return {};
  for (const Row& row : rows()) {
    if (row.name == name) return row.fabric;
  }
  fail_unknown_kind(name);
}

std::string device_kind_named(std::string_view product) {
  const std::vector<std::string> words = product_words(product);
  for (const Row& row : rows()) {
    for (const std::string_view known : row.products)
      if (split(known, ' ') == words) return std::string(row.name);
  }
  return "";
}

std::string device_kind_in(std::string_view line) {
  const std::vector<std::string> words = product_words(line, true);
  std::string found;
  std::size_t longest = 0;
  for (const Row& row : rows()) {
    for (const std::string_view known : row.products) {
      const std::vector<std::string> name = split(known, ' ');
      if (name.size() > longest && stands_in(name, words)) {
        found = row.name;
        longest = name.size();
      }
    }
  }
  return found;
}

std::string generation_of_device_kind(std::string_view kind) {
  for (const auto& [name, kinds] : generations) {
    const std::vector<std::string> all = split(kinds, ' ');
    if (std::ranges::count(all, kind) > 0) return std::string(name);
  }
  return {};
}

std::vector<std::string> device_kinds_of_generation(std::string_view generation) {
  for (const auto& [name, kinds] : generations) {
    if (name == generation) return split(kinds, ' ');
  }
  return {};
}

}  // namespace stagecraft
