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
