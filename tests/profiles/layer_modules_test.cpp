// What backward does again where only some modules of a layer are checkpointed.

#include "profiles/layer_modules.hpp"

#include <set>
#include <string>
#include <vector>

#include "profiles/devices.hpp"
#include "profiles/estimate.hpp"
#include "profiles/kernel_times.hpp"
#include "profiles/model.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

using Names = std::set<std::string, std::less<>>;

LayerOperations block_of(const char* model, LayerKind kind) {
  return layer_operations(*builtin_model(model).transformer, kind,
                          {.sequence = 4096, .tensor_parallel = 2, .sequence_parallel = true});
}

Names forward_again(const LayerOperations& layer, const char* modules) {
  Names names;
  for (const Operation& operation : layer.operations) {
    if (operation.pass != Pass::forward) continue;
    if (is_again(operation, layer, known_layer_modules(modules).modules))
      names.insert(std::string(operation.name));
  }
  return names;
}

Bytes kept_with(const LayerOperations& layer, const char* modules) {
  return kept_bytes(layer, Recomputed::none, known_layer_modules(modules).modules);
}

Bytes bytes_of(const LayerOperations& layer, std::string_view name, bool routed) {
  Bytes sum = 0;
  for (const Kept& kept : layer.kept)
    if (kept.name == name && kept.routed == routed) sum += kept.bytes;
  REQUIRE(sum > 0);
  return sum;
}

}  // namespace

TEST_CASE("modules are read by Megatron-LM's names, as a list or by plus signs", "[recompute]") {
  CHECK(to_string(read_layer_modules("['layernorm', 'moe_act']")) == "layernorm+moe_act");
  CHECK(to_string(read_layer_modules("moe_act+layernorm")) == "layernorm+moe_act");
  CHECK(to_string(read_layer_modules("core_attn mla_up_proj mlp moe shared_experts")) ==
        "core_attn+mla_up_proj+mlp+moe+shared_experts");
  CHECK(message_of([] { read_layer_modules("[]"); }).starts_with("no module of a layer in"));
  const KnownLayerModules some = known_layer_modules("['layernorm', 'mhc', 'moe']");
  CHECK(to_string(some.modules) == "layernorm+moe");
  CHECK(some.unknown == "mhc");
  CHECK(
      message_of([] { read_layer_modules("attn"); }) ==
      "unknown module \"attn\" of a layer; known: core_attn, mla_up_proj, layernorm, mlp, moe_act, "
      "moe, shared_experts");
}

TEST_CASE("a module is its operations, and what only they read is not kept", "[recompute]") {
  const LayerOperations dense = block_of("llama3-8b", LayerKind::transformer);
  CHECK(forward_again(dense, "core_attn") == Names{"attention"});
  CHECK(forward_again(dense, "layernorm") == Names{"first norm", "second norm"});
  CHECK(forward_again(dense, "mlp") == Names{"gather of feed-forward inputs", "up", "activation",
                                             "down", "sum of feed-forward outputs"});
  CHECK(forward_again(dense, "moe moe_act shared_experts mla_up_proj").empty());
  const Bytes all = kept_with(dense, "");
  CHECK(all == kept_bytes(dense, Recomputed::none));
  CHECK(kept_with(dense, "layernorm") == all - bytes_of(dense, "attention input", false) -
                                             bytes_of(dense, "feed-forward input", false));
  CHECK(kept_with(dense, "mlp") ==
        all - bytes_of(dense, "activation input", false) - bytes_of(dense, "activation", false));
  CHECK(kept_with(dense, "core_attn") == kept_bytes(dense, Recomputed::selective));

  const LayerOperations mixture = block_of("deepseek-v2-lite", LayerKind::expert_transformer);
  CHECK(forward_again(mixture, "moe_act") == Names{"activation"});
  CHECK(kept_with(mixture, "moe_act") ==
        kept_with(mixture, "") - bytes_of(mixture, "activation", true));
  CHECK(forward_again(mixture, "mla_up_proj") == Names{"key value up", "rotary positions"});
  // Its feed-forward is shared experts, and these are a part of all experts.
  CHECK(forward_again(mixture, "mlp").empty());
  const Names shared = forward_again(mixture, "shared_experts");
  CHECK(shared.contains("up"));
  const Names experts = forward_again(mixture, "moe");
  for (const char* name : {"router", "choice of experts", "permute", "expert up", "expert down",
                           "unpermute", "up", "activation"}) {
    CHECK(experts.contains(name));
  }
  CHECK_FALSE(experts.contains("attention"));
  CHECK(kept_with(mixture, "moe") < kept_with(mixture, "moe_act shared_experts"));
}

TEST_CASE("what is done again takes its forward's time once, however many modules it is of",
          "[recompute]") {
  const LayerOperations layer = block_of("deepseek-v2-lite", LayerKind::expert_transformer);
  KernelSetting setting = kernel_setting(builtin_device_kind("h100"), Precision::bfloat16);
  setting.constants.host_seconds = 0;
  const auto again = [&](const char* modules) {
    setting.again = known_layer_modules(modules).modules;
    return layer_seconds(layer, Recomputed::none, setting).recompute;
  };
  CHECK(again("") == 0);
  const double norms = again("layernorm");
  const double act = again("moe_act");
  CHECK(norms > 0);
  CHECK(act > 0);
  CHECK(again("layernorm moe_act") == Approx(norms + act));
  CHECK(again("moe moe_act") == Approx(again("moe")));
  CHECK(again("moe") < again("moe layernorm mla_up_proj core_attn"));
}

TEST_CASE("a model has the modules of any of its layers", "[recompute]") {
  const auto words = [](const char* model) { return to_string(modules_of(builtin_model(model))); };
  CHECK(words("llama3-8b") == "core_attn+layernorm+mlp");
  CHECK(words("mixtral-8x7b") == "core_attn+layernorm+moe_act+moe");
  CHECK(words("deepseek-v2") == "core_attn+mla_up_proj+layernorm+mlp+moe_act+moe+shared_experts");
  CHECK(words("resnet50").empty());
}

TEST_CASE("selective recomputation of an estimate does modules again where it is told to",
          "[recompute]") {
  const Model model = builtin_model("deepseek-v2-lite");
  const DeviceKind device = builtin_device_kind("h100");
  CostSetting setting{.device = "h100", .sequence = 4096, .precision = Precision::bfloat16};
  const std::vector<LayerCost> usual = estimate_costs(model, device, setting);
  const auto with = [&](const char* modules) {
    setting.kernels.again = known_layer_modules(modules).modules;
    return estimate_costs(model, device, setting);
  };
  const LayerOperations mixture = layer_operations(
      *model.transformer, model.layers[2], {.sequence = 4096, .precision = Precision::bfloat16});
  for (const char* modules : {"moe_act", "layernorm+moe_act", "moe", "core_attn", "mla_up_proj"}) {
    INFO(modules);
    const std::vector<LayerCost> costs = with(modules);
    REQUIRE(costs[2].selective);
    CHECK(costs[2].saved - costs[2].selective->saved ==
          kept_with(mixture, "") - kept_with(mixture, modules));
    KernelSetting kernels = kernel_setting(device, Precision::bfloat16);
    kernels.again = setting.kernels.again;
    const double again = layer_seconds(mixture, Recomputed::none, kernels).recompute;
    CHECK(costs[2].selective->again == from_seconds(again));
    LayerCost same = costs[2];
    same.selective = usual[2].selective;
    CHECK(same == usual[2]);
  }
  // The first block has no experts, embedding and head no blocks.
  const std::vector<LayerCost> experts = with("moe_act");
  CHECK_FALSE(experts[1].selective);
  CHECK_FALSE(experts.front().selective);
  CHECK_FALSE(experts.back().selective);
  CHECK(usual[1].selective);
}
