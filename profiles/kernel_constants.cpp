#include "profiles/kernel_constants.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "profiles/devices.hpp"
#include "profiles/error.hpp"
#include "profiles/kernel_times.hpp"

namespace stagecraft {

namespace {

/// What training reaches at the clocks that its power leaves, not a product alone.
struct DeviceRates {
  std::string_view kind;
  double product_rate, attention_rate, memory_rate;
};
// Fitted together on published runs, of each publisher's devices as much as of any other's, and
// rounded; errors on publishers left out: planner/calibration/README.md. An A100 multiplies 243
// TFLOP/s, an H100 593 (1146 in 8 bits), a B200 1024, a GB200 1213. Other kinds have `efficiency`.
constexpr std::array measured_rates{
    // MosaicML's MPT under FSDP (its attention is Triton's), Megatron-LM of 2021 and 2022,
    // Megatron-DeepSpeed.
    DeviceRates{"a100", 0.78, 0.33, 0.73},
    DeviceRates{"a100-80gb", 0.78, 0.33, 0.73},
    DeviceRates{"a800", 0.78, 0.33, 0.73},
    // NVIDIA's NeMo and Megatron Core, Meta's Llama 3; others of the generation alike.
    DeviceRates{"h100", 0.6, 0.475, 0.69},
    DeviceRates{"h800", 0.6, 0.475, 0.69},
    DeviceRates{"h200", 0.6, 0.475, 0.69},
    DeviceRates{"gh200", 0.6, 0.475, 0.69},
    // Products of SimuMax's runs on B200, of NeMo's on GB200. Attention and memory of Blackwell are
    // as much of NVIDIA's own figures as training has on Hopper. cuDNN's attention, forward and
    // back, causal, in TFLOP/s over 4096 and 8192 tokens (NVIDIA/cudnn-frontend,
    // benchmark/sdpa_benchmark_training): B200 904 and 1082 (cuDNN 9.13.1), GB200 1212 and 1394,
    // GB300 1352 and 1534 (9.22); H200 567 over 8192, where training has 459 on an H100: 0.81.
    // Norms reach 0.9 of the part of bandwidth that they reach on an H200 (its benchmark/norms).
    DeviceRates{"b200", 0.455, 0.37, 0.62},
    DeviceRates{"gb200", 0.485, 0.44, 0.62},
    // Of Blackwell Ultra no run is fitted: products by NVIDIA's own figures, too, which are 1503
    // TFLOP/s on a B300 of 1100 W and 599 on an H200 NVL of 600 W (NVIDIA/TransformerEngine,
    // docs/examples/gemm_profiling; the watts are nvidia-smi's in public logs). Power limits them,
    // 1.17 of a B200's on a GB200 of 1.2 times its power: an H200 of 700 W would have 684, of which
    // training has 0.87. Of the B300's that is 1303, and with the 1400 W of a GB300 1604.
    DeviceRates{"b300", 0.58, 0.48, 0.62},
    DeviceRates{"gb300", 0.64, 0.48, 0.62},
};

/// The rates of A100 over its efficiency, for kinds of which nobody published a run.
constexpr double product_rate_of_efficiency = 1.2, attention_rate_of_efficiency = 0.48;

void take_rates(KernelConstants& constants, std::string_view device) {
  for (const DeviceRates& row : measured_rates) {
    if (row.kind != device) continue;
    constants.product_rate = row.product_rate;
    constants.attention_rate = row.attention_rate;
    constants.memory_rate = row.memory_rate;
    return;
  }
  const double efficiency = usual_efficiency(device);
  constants.product_rate = std::min(best_product_rate, product_rate_of_efficiency * efficiency);
  constants.attention_rate = attention_rate_of_efficiency * efficiency;
}

}  // namespace

double usual_efficiency(std::string_view device) {
  static const std::map<std::string, double, std::less<>> known = [] {
    std::map<std::string, double, std::less<>> result;
    for (const std::string& name : builtin_device_kinds())
      result[name] = builtin_device_kind(name).efficiency;
    return result;
  }();
  const auto found = known.find(device);
  constexpr double of_a100 = 0.65;
  return found == known.end() ? of_a100 : found->second;
}

namespace {

/// Attention in 8 bits beside 16 on devices of a generation.
struct Float8AttentionOf {
  std::string_view begins;  ///< what names of its devices begin with
  Float8Attention rates;
};
// cuDNN, Llama 3.1's heads, causal, 8192 tokens (NVIDIA/cudnn-frontend,
// benchmark/sdpa_benchmark_training/results): H200 by cuDNN 9.19.1 forward 964 for 644 TFLOP/s,
// backward 430 for 541; GB200 by 9.22 2047 for 1574 and 1454 for 1332; GB300 2897 for 1856 and 1781
// for 1435. FlashAttention-3 has 1.2 for 0.74 PFLOP/s on an H100, and no backward (Shah et al.
// 2024).
constexpr Float8Attention on_hopper{.forward = 1.50, .backward = 0.79};
constexpr Float8Attention on_blackwell{.forward = 1.30, .backward = 1.09};
constexpr Float8Attention on_blackwell_ultra{.forward = 1.56, .backward = 1.24};
constexpr std::array float8_attention{
    Float8AttentionOf{"h100", on_hopper},          Float8AttentionOf{"h200", on_hopper},
    Float8AttentionOf{"h800", on_hopper},          Float8AttentionOf{"h20", on_hopper},
    Float8AttentionOf{"gh200", on_hopper},         Float8AttentionOf{"b200", on_blackwell},
    Float8AttentionOf{"gb200", on_blackwell},      Float8AttentionOf{"b300", on_blackwell_ultra},
    Float8AttentionOf{"gb300", on_blackwell_ultra}};

}  // namespace

SharedRates shared_rates(std::string_view device) {
  // A core has no peers in other nodes that it would wait for.
  if (device == "cpu") return {.contention = 0, .straggling = 0};
  SharedRates rates;
  for (const auto& [begins, of_generation] : float8_attention) {
    if (!device.starts_with(begins)) continue;
    rates.flash2_rate = 0.6;
    // cuDNN 9.19.1 on an H200, causal (NVIDIA/cudnn-frontend, as above): heads of 64 forward 349
    // and backward 300 TFLOP/s within 1024 keys, of 128 over all of 8192 keys 644 and 541. 0.76 of
    // that is the window's; the rest is 0.72.
    rates.narrow_heads = 0.47;
    rates.float8_attention = of_generation;
  }
  return rates;
}

Float8Recipe usual_float8_recipe(std::string_view device) {
  constexpr std::array<std::string_view, 4> with_mxfp8{"b200", "b300", "gb200", "gb300"};
  const bool has_it = std::ranges::find(with_mxfp8, device) != with_mxfp8.end();
  return has_it ? Float8Recipe::mxfp8 : Float8Recipe::delayed;
}

std::string against_float8_recipe(const LayerKernels& kernels, Precision precision,
                                  const DeviceKind& device) {
  if (!kernels.float8_recipe) return "";
  const Float8Recipe recipe = *kernels.float8_recipe;
  if (!is_float8(precision)) {
    return concat("an fp8 recipe (", to_string(recipe), ") scales what is rounded to fp8, and ",
                  "layers compute in ", to_string(precision));
  }
  if (kernels.framework != Framework::megatron) {
    return concat("an fp8 recipe (", to_string(recipe),
                  ") is of Megatron-LM's kernels, and layers ", "have PyTorch's");
  }
  if (recipe != Float8Recipe::mxfp8 || usual_float8_recipe(device.name) == recipe) return "";
  return concat("fp8 recipe mxfp8 is of b200, b300, gb200 and gb300, and the plan has ",
                device.name);
}

std::string against_fused_loss(const LayerKernels& kernels) {
  if (kernels.fused_loss == FusedLoss::none || kernels.framework == Framework::megatron) return "";
  return "the fused loss is Megatron-LM's, and layers have PyTorch's kernels";
}

std::string against_router_fusion(const LayerKernels& kernels, const Model& model) {
  if (kernels.router_fusion == RouterFusion::off) return "";
  if (kernels.framework != Framework::megatron)
    return "the fused router is Megatron-LM's, and layers have PyTorch's kernels";
  return has_experts(model) ? "" : concat("no layer of ", model.name, " has a router to fuse");
}

std::string against_overlap(const LayerKernels& kernels, const DeviceKind& device) {
  if (kernels.overlap.empty()) return "";
  if (kernels.framework != Framework::megatron) {
    return concat("messages beside kernels (overlap ", to_string(kernels.overlap),
                  ") are Megatron-LM's, and layers have PyTorch's kernels");
  }
  if (!device.generic && device.name != "cpu") return "";
  return concat("messages run beside kernels of GPUs (overlap ", to_string(kernels.overlap),
                "), and the plan has ", device.name);
}

std::string against_recompute_modules(const LayerKernels& kernels, const Model& model) {
  if (kernels.again.empty()) return "";
  if (kernels.framework != Framework::megatron) {
    return concat("recompute modules (", to_string(kernels.again),
                  ") are parts of Megatron-LM's layers, and layers have PyTorch's kernels");
  }
  const LayerModules absent = kernels.again.without(modules_of(model));
  return absent.empty() ? "" : concat("no layer of ", model.name, " has ", to_string(absent));
}

KernelConstants usual_constants(std::string_view device) {
  KernelConstants constants;
  constants.product_depth = 65;
  constants.product_outputs = 1.26e6;
  constants.memory_rate = 0.73;
  constants.kernel_seconds = 4.5e-6;
  // Python, PyTorch and the framework, kernel by kernel: single nodes of vTrain, Megatron-LM's
  // tests.
  constants.host_seconds = 3.5e-5;
  constants.module_launches = 1.2;
  constants.host_peer_seconds = 3e-6;
  constants.message_seconds = 1.7e-5;
  constants.peer_seconds = 3.6e-6;
  constants.inside_rate = 0.82;
  constants.message_overlap = 0.85;
  constants.transfer_seconds = 4e-5;
  // Plans have no such time: where it is not fitted, neither have recipes.
  constants.step_seconds = 0;
  take_rates(constants, device);
  // A Grace takes longer for a module of Transformer Engine's: NeMo's runs on GB200.
  if (device.starts_with("gb200") || device.starts_with("gb300")) constants.module_launches = 2.8;
  // Narayanan et al. 2021, section 5.9: all-reduces of replicas cross the bisection with 13 TB/s on
  // 3072 devices, 8.5 GB/s for each port of 25.
  if (device.starts_with("a100")) constants.between_rate = 0.4;
  // A core calls its kernels itself, and fills them with few rows.
  if (device == "cpu") {
    constants.product_depth = 16;
    constants.product_outputs = 500;
    constants.attention_length = 16;
    constants.kernel_seconds = 1e-6;
    constants.host_seconds = 1e-7;
    constants.module_launches = 0;
  }
  return constants;
}

}  // namespace stagecraft
