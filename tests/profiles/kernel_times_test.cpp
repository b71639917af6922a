// What a layer takes, in closed form: the device's kernels and the host's work for them.

#include "profiles/kernel_times.hpp"

#include <cmath>
#include <vector>

#include "tests/catch.hpp"

using namespace stagecraft;
using Catch::Matchers::WithinRel;

namespace {

/// Seconds of one pass of so many equal operations.
LayerSeconds seconds_of(const Operation& operation, int count, const KernelSetting& setting) {
  LayerOperations layer;
  layer.operations.assign(static_cast<std::size_t>(count), operation);
  return layer_seconds(layer, Recomputed::none, setting);
}

}  // namespace

TEST_CASE("PyTorch's attention is slower than the best kernel from Hopper on") {
  const Transformer transformer = *builtin_model("llama3-8b").transformer;
  const auto forward = [&](std::string_view device, Framework framework) {
    const WorkSetting work{.sequence = 8192, .framework = framework};
    const LayerOperations layer = layer_operations(transformer, LayerKind::transformer, work);
    return layer_seconds(layer, Recomputed::none,
                         kernel_setting(builtin_device_kind(device), Precision::bfloat16))
        .forward;
  };
  CHECK(forward("h100", Framework::torch) > 1.03 * forward("h100", Framework::megatron));
  CHECK(forward("a100", Framework::torch) == forward("a100", Framework::megatron));
}

TEST_CASE("attention over windows and of narrow heads takes longer for what it computes") {
  struct Shape {
    double keys, width;
    std::string_view device;
  };
  const auto rate_of = [](const Shape& shape, double sequence) {
    Operation core{.kind = OperationKind::attention,
                   .batch = 64,
                   .m = shape.keys,
                   .n = shape.width,
                   .k = sequence,
                   .flops = 1e15,
                   .launches = 0};
    const KernelSetting setting =
        kernel_setting(builtin_device_kind(std::string(shape.device)), Precision::bfloat16);
    return core.flops / operation_seconds(core, setting);
  };
  // NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training/results, causal: heads of 64 over
  // 1024 keys beside heads of 128 over all of 8192 on an H200, the same over 128 keys on a GB200.
  const double near_one = rate_of({1024, 64, "h200"}, 8192) / rate_of({8192, 128, "h200"}, 8192);
  CHECK(near_one == Approx(349.0 / 644).epsilon(0.03));
  const double narrow = rate_of({128, 64, "gb200"}, 4096) / rate_of({4096, 128, "gb200"}, 4096);
  CHECK(narrow == Approx((161.0 / 1408 + 182.0 / 1148) / 2).epsilon(0.15));
  // Wider heads than 128 gain nothing, and an A100 is nearer to its products with narrow ones.
  CHECK(rate_of({4096, 192, "h100"}, 4096) == rate_of({4096, 128, "h100"}, 4096));
  CHECK(rate_of({4096, 64, "a100"}, 4096) == rate_of({4096, 128, "a100"}, 4096));
}

TEST_CASE("of a layer without kernels to speak of the host's work is left: launches and modules") {
  KernelSetting setting;
  setting.constants.kernel_seconds = 0;
  setting.constants.host_seconds = 3e-6;
  for (const double of_module : {0.0, 2.5}) {
    setting.constants.module_launches = of_module;
    for (const Pass pass : {Pass::forward, Pass::backward_input, Pass::backward_weight}) {
      const Operation operation{.name = "none", .pass = pass, .launches = 4, .modules = 2};
      const LayerSeconds layer = seconds_of(operation, 7, setting);
      CHECK_THAT(layer.forward + layer.backward(),
                 WithinRel(7 * 3e-6 * (4 + 2 * of_module), 1e-12));
    }
  }
}

TEST_CASE("device and host work beside each other, and wait where they are close") {
  KernelSetting setting;
  setting.constants.kernel_seconds = 10e-6;
  setting.constants.module_launches = 0;
  const auto layer_with_host = [&](double host) {
    setting.constants.host_seconds = host;
    return seconds_of({.name = "none"}, 5, setting).forward;
  };
  CHECK_THAT(layer_with_host(0), WithinRel(5 * 10e-6, 1e-12));
  CHECK_THAT(layer_with_host(1e-6), WithinRel(5 * 10e-6, 1e-4));
  CHECK_THAT(layer_with_host(10e-6), WithinRel(5 * 10e-6 * std::pow(2, 0.25), 1e-12));
  CHECK_THAT(layer_with_host(100e-6), WithinRel(5 * 100e-6, 1e-4));
}

TEST_CASE("a fused loss reads and keeps logits in training's precision, and has no copy beside") {
  const Model model = builtin_model("llama3-8b");
  const auto head = [&](FusedLoss loss) {
    return estimate_costs(model, builtin_device_kind("h100"),
                          {.device = "h100",
                           .microbatch = 2,
                           .sequence = 4096,
                           .precision = Precision::bfloat16,
                           .kernels = {.fused_loss = loss}})
        .back();
  };
  const LayerCost fused = head(FusedLoss::te), plain = head(FusedLoss::none);
  const LayerCost native = head(FusedLoss::native);
  const Bytes logits = Bytes{2} * 4096 * 128256;
  CHECK(plain.saved - fused.saved == 2 * logits);
  CHECK(plain.workspace - fused.workspace == 2 * logits);
  CHECK(fused.forward < plain.forward);
  CHECK(fused.backward_input < plain.backward_input);
  CHECK(fused.backward_weight == plain.backward_weight);
  // Compiled, the same is in fp32 still: fewer passes, and exponentials beside the logits.
  CHECK(native.saved == plain.saved);
  CHECK(native.workspace - plain.workspace == 4 * logits);
  CHECK(native.forward < plain.forward);
  CHECK(native.forward > fused.forward);
  CHECK(native.backward_input < plain.backward_input);
  CHECK(native.backward_input > fused.backward_input);
}
