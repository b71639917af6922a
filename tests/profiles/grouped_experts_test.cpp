// Experts of one device: kernels for each of them, and what the host does of it behind their
// counts.

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "profiles/importers.hpp"
#include "profiles/kernel_times.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;

namespace {

using Operations = std::vector<Operation>;

/// A mixture of which each of eight expert-parallel peers has as many experts.
WorkSetting eight_experts(Precision precision, Float8Recipe recipe) {
  return {.sequence = 4096,
          .expert_parallel = 8,
          .expert_tensor_parallel = 1,
          .precision = precision,
          .float8_recipe = recipe};
}

Operations block_of(const WorkSetting& work) {
  return layer_operations(*builtin_model("deepseek-v2-lite").transformer,
                          LayerKind::expert_transformer, work)
      .operations;
}

/// Its first block with experts.
LayerOperations block_of(const char* configuration, const WorkSetting& work) {
  const Model model = import_huggingface(configuration, "config.json").model;
  for (const Layer& layer : model.layers) {
    if (is_block(layer)) return layer_operations(*model.transformer, layer, work);
  }
  FAIL("no block");
  return {};
}

constexpr const char* qwen3 = R"({"architectures": ["Qwen3MoeForCausalLM"],
  "model_type": "qwen3_moe", "hidden_size": 2048, "num_attention_heads": 32,
  "num_key_value_heads": 4, "head_dim": 128, "num_hidden_layers": 4, "num_experts": 128,
  "num_experts_per_tok": 8, "moe_intermediate_size": 768, "intermediate_size": 6144,
  "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": true, "hidden_act": "silu",
  "attention_bias": false, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": false,
  "max_position_embeddings": 40960, "vocab_size": 151936})";

constexpr const char* gpt_oss = R"({"architectures": ["GptOssForCausalLM"],
  "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880,
  "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "num_hidden_layers": 2,
  "num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128, "attention_bias": true,
  "layer_types": ["sliding_attention", "full_attention"], "hidden_act": "silu",
  "rms_norm_eps": 1e-5, "rope_theta": 150000, "max_position_embeddings": 131072,
  "tie_word_embeddings": false, "vocab_size": 201088})";

Operation named(const Operations& operations, std::string_view name, Pass pass) {
  const auto found = std::ranges::find_if(
      operations, [&](const Operation& each) { return each.name == name && each.pass == pass; });
  REQUIRE(found != operations.end());
  return *found;
}

}  // namespace

TEST_CASE("a grouped linear layer multiplies each expert's rows by a kernel, PyTorch's all by one",
          "[experts]") {
  WorkSetting work = eight_experts(Precision::bfloat16, Float8Recipe::delayed);
  for (const Pass pass : {Pass::forward, Pass::backward_input, Pass::backward_weight}) {
    const Operation product = named(block_of(work), "expert up", pass);
    CHECK(product.parts == Approx(8).epsilon(1e-6));
    CHECK(product.parts == product.batch);
    CHECK(product.launches == 1);
  }
  CHECK(named(block_of(work), "query", Pass::forward).parts == 1);
  work.framework = Framework::torch;
  CHECK(named(block_of(work), "expert up", Pass::forward).parts == 1);
  work.framework = Framework::megatron;
  work.grouped_experts = false;
  const Operation apart = named(block_of(work), "expert up", Pass::forward);
  CHECK(apart.parts == 1);
  CHECK(apart.launches == 8);
}

TEST_CASE("who scales what is rounded to 8 bits says how many kernels round experts' rows",
          "[experts]") {
  struct Case {
    Float8Recipe recipe;
    double kernels, bytes;  // of an expert, of an element
    bool together;          // all experts by one kernel
  };
  const auto rows = [](const Operations& operations) {
    return named(operations, "dispatch", Pass::forward).bytes / 2;
  };
  // Transformer Engine, csrc/extensions/cast.cpp: `multi_tensor_quantize_impl` has one kernel for
  // delayed scaling; a quantizer of current scaling clears and finds the largest number, makes the
  // scale of it, and casts.
  for (const Case& each :
       {Case{Float8Recipe::delayed, 1, 4, true}, Case{Float8Recipe::tensorwise, 4, 6, false},
        Case{Float8Recipe::blockwise, 1, 4, false}, Case{Float8Recipe::mxfp8, 1, 4, false}}) {
    INFO(to_string(each.recipe));
    const Operations operations = block_of(eight_experts(Precision::float8, each.recipe));
    Operations casts;
    for (const Operation& operation : operations)
      if (operation.routed && operation.name.starts_with("cast")) casts.push_back(operation);
    REQUIRE(casts.size() == 4);
    for (const Operation& cast : casts) {
      CHECK(cast.parts == Approx(each.together ? 1 : 8).epsilon(1e-6));
      CHECK(cast.kernels == each.kernels);
      CHECK(cast.launches == 1);
    }
    CHECK(casts.front().bytes == Approx(each.bytes * rows(operations)));
    // Dense layers' are in the kernels before and in the rate.
    for (const Operation& operation : operations)
      if (!operation.routed) CHECK(operation.parts * operation.kernels == 1);
  }
}

TEST_CASE("kernels of experts run four at a time, those that round one after the other",
          "[experts]") {
  KernelSetting setting = kernel_setting(builtin_device_kind("h100"), Precision::bfloat16);
  const double each = setting.constants.kernel_seconds;
  Operation cast{.kernels = 4, .parts = 8};
  CHECK(operation_seconds(cast, setting) == Approx(8 * 4 * each));
  Operation product{.kind = OperationKind::product, .batch = 8, .m = 1, .n = 1, .k = 1, .parts = 8};
  CHECK(operation_seconds(product, setting) == Approx(2 * each));
  product.parts = 1;
  CHECK(operation_seconds(product, setting) == Approx(each));
  // The graph of a step has one kernel for all: no host could tell it their rows.
  setting.graphs = CudaGraphs::step;
  product.parts = 8;
  CHECK(operation_seconds(product, setting) == Approx(each));
  CHECK(operation_seconds(cast, setting) == Approx(4 * each));
}

TEST_CASE("the host is not ahead with what it sends behind the counts of tokens", "[experts]") {
  KernelSetting setting = kernel_setting(builtin_device_kind("h100"), Precision::bfloat16);
  setting.constants.kernel_seconds = 0;
  const double second = setting.memory_bandwidth * setting.constants.memory_rate;  // bytes
  setting.constants.module_launches = 0;
  setting.constants.host_seconds = 1;
  // A long kernel in front, and behind the counts ten that take the device no time.
  const Operation before{.bytes = 100 * second, .launches = 0};
  const Operation behind{.routed = true, .launches = 10};
  LayerOperations layer;
  layer.operations = {before, behind};
  CHECK(layer_seconds(layer, Recomputed::none, setting).forward == Approx(110));
  layer.operations[1].routed = false;
  CHECK(layer_seconds(layer, Recomputed::none, setting).forward == Approx(100).epsilon(1e-4));
  // In backward it knows them.
  for (Operation& operation : layer.operations) operation.pass = Pass::backward_input;
  layer.operations[1].routed = true;
  CHECK(layer_seconds(layer, Recomputed::none, setting).backward_input ==
        Approx(100).epsilon(1e-4));
}

TEST_CASE("no more of exchanges is hidden than there are kernels beside them", "[experts]") {
  KernelSetting setting = kernel_setting(builtin_device_kind("h100"), Precision::bfloat16);
  setting.constants.host_seconds = setting.constants.kernel_seconds = 0;
  setting.constants.message_overlap = 0.8;
  setting.overlapped_exchanges = true;
  const double second = setting.memory_bandwidth * setting.constants.memory_rate;
  const auto step = [&](double kernels, double exchanges) {
    LayerOperations layer;
    layer.operations = {
        {.bytes = kernels * second},
        {.kind = OperationKind::all_to_all, .bytes = exchanges, .group = PeerGroup::expert}};
    const LayerSeconds seconds = layer_seconds(layer, Recomputed::none, setting,
                                               [](const Operation& each) { return each.bytes; });
    CHECK(seconds.messages == Approx(seconds.forward - kernels));
    return seconds.forward;
  };
  CHECK(step(10, 5) == Approx(10 + 0.2 * 5));
  CHECK(step(5, 10) == Approx(10 + 0.2 * 5));
  CHECK(step(0, 10) == Approx(10));
  setting.overlapped_exchanges = false;
  CHECK(step(5, 10) == Approx(15));
}

TEST_CASE("biases behind experts are PyTorch's operations, expert by expert", "[experts]") {
  const WorkSetting work = eight_experts(Precision::bfloat16, Float8Recipe::delayed);
  const LayerOperations biased = block_of(gpt_oss, work);
  const Operation forward = named(biased.operations, "expert biases", Pass::forward);
  const Operation backward = named(biased.operations, "expert biases", Pass::backward_input);
  // 4096 tokens of four experts each, 2880 numbers of two bytes.
  const double pass = 4096.0 * 4 * 2880 * 2;
  CHECK(forward.bytes == Approx(6 * pass));
  CHECK(backward.bytes == Approx(8 * pass));
  CHECK(forward.parts * forward.launches == Approx(16 * 2).epsilon(1e-6));
  CHECK(backward.parts * backward.launches == Approx(16 * 5).epsilon(1e-6));
  CHECK(forward.routed);
  for (const Operation& operation : block_of(qwen3, work).operations)
    CHECK(operation.name != "expert biases");
}

TEST_CASE("Megatron-LM multiplies queries, keys and values at once, and routes in 16 bits",
          "[experts]") {
  WorkSetting work = eight_experts(Precision::float8, Float8Recipe::mxfp8);
  const LayerOperations fused = block_of(qwen3, work);
  const Operation product = named(fused.operations, "query key value", Pass::forward);
  CHECK(product.n == (32 + 4 + 4) * 128);
  CHECK(product.k == 2048);
  CHECK_FALSE(named(fused.operations, "router", Pass::forward).narrow);
  const auto casts = [](const LayerOperations& layer) {
    return std::ranges::count_if(layer.operations, [](const Operation& each) {
      return each.pass == Pass::forward && each.name == "cast of inputs";
    });
  };
  // Of attention's two products, and of the experts' two.
  CHECK(casts(fused) == 4);
  work.framework = Framework::torch;
  const LayerOperations apart = block_of(qwen3, work);
  CHECK(named(apart.operations, "query", Pass::forward).n == 32 * 128);
  CHECK(named(apart.operations, "key", Pass::forward).n == 4 * 128);
  CHECK(apart.weights == fused.weights);
  CHECK(std::ssize(apart.operations) > std::ssize(fused.operations));
}

TEST_CASE("mxfp8 is Blackwell's, and no recipe is for 16 bits", "[experts][precision]") {
  CHECK(usual_float8_recipe("gb300") == Float8Recipe::mxfp8);
  CHECK(usual_float8_recipe("h100") == Float8Recipe::delayed);
  CHECK(usual_float8_recipe("bigchip") == Float8Recipe::delayed);
  const auto why = [](Float8Recipe recipe, Precision precision, const char* device) {
    return against_float8_recipe({.float8_recipe = recipe}, precision, builtin_device_kind(device));
  };
  CHECK(why(Float8Recipe::mxfp8, Precision::float8, "b200").empty());
  CHECK(why(Float8Recipe::tensorwise, Precision::float8, "h100").empty());
  CHECK(why(Float8Recipe::mxfp8, Precision::float8, "h100") ==
        "fp8 recipe mxfp8 is of b200, b300, gb200 and gb300, and the plan has h100");
  CHECK(why(Float8Recipe::tensorwise, Precision::bfloat16, "h100") ==
        "an fp8 recipe (tensorwise) scales what is rounded to fp8, and layers compute in bf16");
  CHECK(
      against_float8_recipe({.framework = Framework::torch, .float8_recipe = Float8Recipe::delayed},
                            Precision::float8, builtin_device_kind("h100")) ==
      "an fp8 recipe (delayed) is of Megatron-LM's kernels, and layers have PyTorch's");
  CHECK(against_float8_recipe({}, Precision::bfloat16, builtin_device_kind("h100")).empty());
}
