#include "profiles/operations.hpp"

#include <algorithm>

#include "profiles/transformer.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

const Transformer& transformer_of(const Model& model) {
  return *model.transformer;
}

/// GPT with heads, width and blocks of the selective-recomputation paper's 22 billion.
Transformer gpt_22b() {
  return {.hidden = 6144,
          .heads = 64,
          .key_value_heads = 64,
          .head_width = 96,
          .feed_forward = 24'576,
          .vocabulary = 51200,
          .positions = 2048};
}

WorkSetting paper_setting(int degree, bool sequence_parallel) {
  return {.microbatch = 4,
          .sequence = 2048,
          .tensor_parallel = degree,
          .sequence_parallel = sequence_parallel,
          .precision = Precision::float16,
          .fused_attention = false,
          .dropout = true};
}

double flops(const LayerOperations& layer, Pass pass, bool core) {
  double sum = 0;
  for (const Operation& operation : layer.operations) {
    if (operation.pass == pass && operation.core_attention == core) sum += operation.flops;
  }
  return sum;
}

int messages(const LayerOperations& layer, OperationKind kind) {
  int count = 0;
  for (const Operation& operation : layer.operations) count += operation.kind == kind ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("the operations of a layer hold its weights, to the unit") {
  for (const std::string& name : builtin_models()) {
    const Model model = builtin_model(name);
    if (!model.transformer) continue;
    const WorkSetting setting{.sequence = model.sequence};
    for (const Layer& layer : model.layers) {
      INFO(name << ' ' << layer.name);
      std::int64_t expected = layer.parameters;
      if (layer.kind == LayerKind::head) expected += tied_parameters(transformer_of(model));
      CHECK(layer_operations(transformer_of(model), layer.kind, setting).weights == expected);
    }
  }
}

TEST_CASE("forward operations are those of the model, and each product has two in backward") {
  for (const std::string name : {"gpt2-124m", "llama3-8b", "mixtral-8x7b", "deepseek-v2"}) {
    INFO(name);
    const Model model = builtin_model(name);
    const WorkSetting setting{.microbatch = 3, .sequence = 2048, .fused_attention = false};
    const LayerKind kind = model.layers[5].kind;
    const LayerOperations layer = layer_operations(transformer_of(model), kind, setting);
    const TransformerFlops expected = layer_flops(transformer_of(model), kind, 2048);
    CHECK(flops(layer, Pass::forward, false) == Approx(3 * expected.linear));
    CHECK(flops(layer, Pass::forward, true) == Approx(3 * expected.attention));
    CHECK(flops(layer, Pass::backward_input, false) == Approx(3 * expected.linear));
    CHECK(flops(layer, Pass::backward_weight, false) == Approx(3 * expected.linear));
    CHECK(flops(layer, Pass::backward_input, true) == Approx(2 * 3 * expected.attention));
  }
}

// Korthikanti et al. 2022, equations 1 to 4 (s tokens, b samples, h wide, a heads, t devices).
TEST_CASE("a GPT block keeps 34 sbh + 5 a s^2 b bytes, less by each kind of parallelism") {
  const double sbh = 2048.0 * 4 * 6144, scores = 5.0 * 64 * 2048 / 6144;
  const auto kept = [](int degree, bool spread, Recomputed recompute) {
    const LayerOperations layer =
        layer_operations(gpt_22b(), LayerKind::transformer, paper_setting(degree, spread));
    return static_cast<double>(kept_bytes(layer, recompute));
  };
  CHECK(kept(1, false, Recomputed::none) == Approx(sbh * (34 + scores)));
  CHECK(kept(8, false, Recomputed::none) == Approx(sbh * (10 + 24 / 8.0 + scores / 8)));
  CHECK(kept(8, true, Recomputed::none) == Approx(sbh * (34 + scores) / 8));
  CHECK(kept(8, true, Recomputed::selective) == sbh * 34 / 8);
  CHECK(kept(8, false, Recomputed::full) == sbh * 2);
}

TEST_CASE("tensor-parallel peers sum twice each way, or gather and scatter") {
  const auto block = [](bool spread) {
    return layer_operations(gpt_22b(), LayerKind::transformer, paper_setting(8, spread));
  };
  CHECK(messages(block(false), OperationKind::all_reduce) == 4);
  CHECK(messages(block(true), OperationKind::all_reduce) == 0);
  // Two gathers forward, two in backward, and two again for the weight gradients.
  CHECK(messages(block(true), OperationKind::all_gather) == 6);
  CHECK(messages(block(true), OperationKind::reduce_scatter) == 4);
}

// megatron/core/transformer/multi_token_prediction.py: a column-parallel product, then a gather.
TEST_CASE("tensor-parallel peers share the product that joins states for a prediction") {
  const Model model = builtin_model("deepseek-v3");
  WorkSetting setting{.sequence = 4096};
  const auto join = [&] {
    const LayerOperations layer =
        layer_operations(transformer_of(model), LayerKind::prediction, setting);
    double sum = 0;
    for (const Operation& operation : layer.operations) {
      if (operation.name == "join") sum += operation.flops;
    }
    return sum;
  };
  const auto gathers = [&](std::string_view name) {
    const LayerOperations layer =
        layer_operations(transformer_of(model), LayerKind::prediction, setting);
    return std::ranges::count(layer.operations, name, &Operation::name);
  };
  const double whole = join();
  CHECK(whole == 3 * 2.0 * 4096 * 2 * 7168 * 7168);
  CHECK(gathers("gather of joined outputs") == 0);
  setting.tensor_parallel = 4;
  CHECK(join() == whole / 4);
  // States' gradients are summed; the outputs' are everywhere.
  CHECK(gathers("gather of joined states") == 1);
  CHECK(gathers("gather of joined outputs") == 1);
  setting.sequence_parallel = true;
  CHECK(gathers("gather of joined states") == 3);
  CHECK(gathers("gather of joined outputs") == 2);
}

TEST_CASE("expert-parallel peers exchange tokens before and after the experts") {
  const Model model = builtin_model("mixtral-8x7b");
  WorkSetting setting{.sequence = 4096, .expert_parallel = 8};
  const auto layer = [&] {
    return layer_operations(transformer_of(model), LayerKind::expert_transformer, setting);
  };
  CHECK(messages(layer(), OperationKind::all_to_all) == 4);
  const std::int64_t spread = layer().expert_weights;
  setting.expert_parallel = 1;
  CHECK(messages(layer(), OperationKind::all_to_all) == 0);
  CHECK(layer().expert_weights == 8 * spread);
}

TEST_CASE("degrees that do not divide are refused with the numbers") {
  const Model model = builtin_model("mixtral-8x7b");
  const auto complaint = [&](const WorkSetting& setting) {
    return message_of(
        [&] { layer_operations(transformer_of(model), LayerKind::expert_transformer, setting); });
  };
  CHECK_THAT(complaint({.sequence = 4096, .tensor_parallel = 3}),
             ContainsSubstring("a degree of 3 does not divide the 32 attention heads"));
  CHECK_THAT(complaint({.sequence = 4096, .expert_parallel = 3}),
             ContainsSubstring("does not divide the 8 experts"));
  CHECK_THAT(complaint({.sequence = 4095, .context_parallel = 2}),
             ContainsSubstring("does not divide the 4095 tokens"));
}
