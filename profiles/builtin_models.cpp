// Models known by name. Each row gives the published numbers; parameters follow from them and equal
// the published counts to the unit (tests/profiles/model_test.cpp lists them).

#include <array>
#include <optional>

#include "profiles/convolutional.hpp"
#include "profiles/model.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// GPT-2 and GPT-3: learned positions, layer norm, GELU of four times the width, biases, tied head.
Transformer gpt(std::int64_t hidden, std::int64_t heads, std::int64_t positions,
                std::int64_t vocabulary) {
  return {.hidden = hidden,
          .heads = heads,
          .key_value_heads = heads,
          .head_width = hidden / heads,
          .feed_forward = 4 * hidden,
          .vocabulary = vocabulary,
          .positions = positions};
}

/// What Llama changed: rotary positions, RMS norm, SwiGLU, no biases; mostly an own head.
struct LlamaShape {
  std::int64_t hidden, heads, key_value_heads, feed_forward, vocabulary, positions;
  double rotary_base = 10000.0;
  bool tied_head = false;
  bool query_key_value_bias = false;  ///< Qwen2
  double norm_epsilon = 1e-5;
  std::optional<RotaryScaling> rotary_scaling;  ///< Llama 3.1 and later
};

Transformer llama(const LlamaShape& shape) {
  return {.hidden = shape.hidden,
          .heads = shape.heads,
          .key_value_heads = shape.key_value_heads,
          .head_width = shape.hidden / shape.heads,
          .feed_forward = shape.feed_forward,
          .vocabulary = shape.vocabulary,
          .positions = shape.positions,
          .norm = Transformer::Norm::rms_norm,
          .activation = Transformer::FeedForward::swiglu,
          .position = Transformer::Position::rotary,
          .attention_bias = shape.query_key_value_bias,
          .output_bias = false,
          .feed_forward_bias = false,
          .tied_head = shape.tied_head,
          .norm_epsilon = shape.norm_epsilon,
          .rotary_base = shape.rotary_base,
          .rotary_scaling = shape.rotary_scaling};
}

/// BERT with both of its pre-training heads (masked words, next sentence).
Transformer bert(std::int64_t hidden, std::int64_t heads) {
  Transformer transformer = gpt(hidden, heads, 512, 30522);
  transformer.causal = false;
  transformer.token_types = true;
  transformer.norm_epsilon = 1e-12;
  return transformer;
}

/// Llama 3.x share vocabulary and rotary base; 3.1 and 3.2 scale it by `factor`.
LlamaShape llama3(std::int64_t hidden, std::int64_t heads, std::int64_t feed_forward,
                  std::int64_t positions, std::optional<double> factor = {},
                  bool tied_head = false) {
  std::optional<RotaryScaling> scaling;
  if (factor) scaling = RotaryScaling{.factor = *factor};
  return {.hidden = hidden,
          .heads = heads,
          .key_value_heads = 8,
          .feed_forward = feed_forward,
          .vocabulary = 128256,
          .positions = positions,
          .rotary_base = 500000.0,
          .tied_head = tied_head,
          .rotary_scaling = scaling};
}

LlamaShape qwen2(std::int64_t hidden, std::int64_t heads, std::int64_t key_value_heads,
                 std::int64_t feed_forward, std::int64_t vocabulary, bool tied_head) {
  return {.hidden = hidden,
          .heads = heads,
          .key_value_heads = key_value_heads,
          .feed_forward = feed_forward,
          .vocabulary = vocabulary,
          .positions = 32768,
          .rotary_base = 1e6,
          .tied_head = tied_head,
          .query_key_value_bias = true,
          .norm_epsilon = 1e-6};
}

/// Mixtral: Mistral with eight experts, two of them chosen.
Transformer mixtral(const LlamaShape& shape) {
  Transformer transformer = llama(shape);
  transformer.experts = Experts{.count = 8, .active = 2, .feed_forward = shape.feed_forward};
  return transformer;
}

/// DeepSeek-V2 and V3 share their attention's head widths and latents.
Transformer deepseek(std::int64_t hidden, std::int64_t heads, std::int64_t query_rank,
                     std::int64_t feed_forward, std::int64_t vocabulary, const Experts& experts) {
  Transformer transformer =
      llama({hidden, heads, heads, feed_forward, vocabulary, 163840, 10000.0, false, false, 1e-6});
  transformer.latent = LatentAttention{.query_rank = query_rank,
                                       .key_value_rank = 512,
                                       .rotary_width = 64,
                                       .plain_width = 128,
                                       .value_width = 128};
  transformer.head_width = 192;
  transformer.experts = experts;
  return transformer;
}

Transformer deepseek_v3() {
  Transformer transformer = deepseek(7168, 128, 1536, 18432, 129280, {256, 8, 2048, 2048, 3, true});
  transformer.experts->groups = {.count = 8, .active = 4};
  transformer.prediction_modules = 1;
  return transformer;
}

/// BLOOM: a GPT whose attention knows distances by slopes (ALiBi), without a position table.
Transformer bloom(std::int64_t hidden, std::int64_t heads, std::int64_t positions,
                  std::int64_t vocabulary) {
  Transformer transformer = gpt(hidden, heads, positions, vocabulary);
  transformer.position = Transformer::Position::none;
  transformer.embedding_norm = true;
  transformer.untrainable = "its positions are slopes (ALiBi), and its embedding has a norm";
  return transformer;
}

/// Nemotron-4: rotary positions and grouped queries, but layer norm and one matrix up, no biases.
Transformer nemotron4(const LlamaShape& shape) {
  Transformer transformer = llama(shape);
  transformer.norm = Transformer::Norm::layer_norm;
  transformer.activation = Transformer::FeedForward::gelu;
  transformer.untrainable = "its activation is the square of relu";
  return transformer;
}

/// ViT for ImageNet: images of 224 pixels in patches of `patch`, 1000 classes.
Transformer vision(std::int64_t hidden, std::int64_t heads, std::int64_t patch) {
  const std::int64_t tokens = (224 / patch) * (224 / patch) + 1;
  Transformer transformer = gpt(hidden, heads, tokens, 1000);
  transformer.patches = Patches{.image = 224, .patch = patch, .classes = 1000};
  transformer.causal = false;
  transformer.tied_head = false;
  transformer.norm_epsilon = 1e-6;
  return transformer;
}

struct BuiltinTransformer {
  std::string_view name;
  Transformer transformer;
  int blocks;
  std::int64_t sequence;  ///< the length it was trained at
};

std::vector<BuiltinTransformer> transformers() {
  return {
      {"tiny-gpt", gpt(64, 4, 64, 256), 8, 64},
      {"tiny-llama", llama({64, 4, 2, 176, 256, 64}), 8, 64},
      {"gpt2-124m", gpt(768, 12, 1024, 50257), 12, 1024},
      {"gpt2-350m", gpt(1024, 16, 1024, 50257), 24, 1024},
      {"gpt2-774m", gpt(1280, 20, 1024, 50257), 36, 1024},
      {"gpt2-1558m", gpt(1600, 25, 1024, 50257), 48, 1024},
      // 96 (12 h^2 + 13 h) + (50257 + 2048) h + 2 h with h = 12288: 174,604,259,328.
      {"gpt3-175b", gpt(12288, 96, 2048, 50257), 96, 2048},
      // As trained, its vocabulary padded by Megatron-LM.
      {"mt-nlg-530b", gpt(20480, 128, 2048, 51200), 105, 2048},
      {"bloom-176b", bloom(14336, 112, 2048, 250880), 70, 2048},
      {"nemotron4-340b", nemotron4({18432, 96, 8, 73728, 256000, 4096}), 96, 4096},
      {"llama2-7b", llama({4096, 32, 32, 11008, 32000, 4096}), 32, 4096},
      {"llama2-13b", llama({5120, 40, 40, 13824, 32000, 4096}), 40, 4096},
      {"llama2-70b", llama({8192, 64, 8, 28672, 32000, 4096}), 80, 4096},
      {"llama3-8b", llama(llama3(4096, 32, 14336, 8192)), 32, 8192},
      {"llama3-70b", llama(llama3(8192, 64, 28672, 8192)), 80, 8192},
      {"llama3-405b", llama(llama3(16384, 128, 53248, 131072, 8.0)), 126, 8192},
      {"llama3.2-1b", llama(llama3(2048, 32, 8192, 131072, 32.0, true)), 16, 8192},
      {"llama3.2-3b", llama(llama3(3072, 24, 8192, 131072, 32.0, true)), 28, 8192},
      {"mistral-7b", llama({4096, 32, 8, 14336, 32000, 32768}), 32, 8192},
      {"qwen2-0.5b", llama(qwen2(896, 14, 2, 4864, 151936, true)), 24, 4096},
      {"qwen2-7b", llama(qwen2(3584, 28, 4, 18944, 152064, false)), 28, 4096},
      {"bert-base", bert(768, 12), 12, 512},
      {"bert-large", bert(1024, 16), 24, 512},
      {"mixtral-8x7b", mixtral({4096, 32, 8, 14336, 32000, 32768, 1e6}), 32, 4096},
      {"mixtral-8x22b", mixtral({6144, 48, 8, 16384, 32768, 65536, 1e6}), 56, 4096},
      {"deepseek-v2-lite", deepseek(2048, 16, 0, 10944, 102400, {64, 6, 1408, 2816, 1}), 27, 4096},
      {"deepseek-v2",
       deepseek(5120, 128, 1536, 12288, 102400, {160, 6, 1536, 3072, 1, false, true, {8, 3}}), 60,
       4096},
      {"deepseek-v3", deepseek_v3(), 61, 4096},
      {"vit-b16", vision(768, 12, 16), 12, 197},
      {"vit-l16", vision(1024, 16, 16), 24, 197},
      {"vit-h14", vision(1280, 16, 14), 32, 257},
  };
}

struct BuiltinNetwork {
  std::string_view name;
  Model (*make)();
};
constexpr std::array networks{BuiltinNetwork{"vgg-small", make_vgg_small},
                              BuiltinNetwork{"vgg16", make_vgg16},
                              BuiltinNetwork{"resnet50", make_resnet50}};

}  // namespace

std::vector<std::string> builtin_models() {
  std::vector<std::string> names;
  for (const auto& row : transformers()) names.emplace_back(row.name);
  for (const auto& row : networks) names.emplace_back(row.name);
  return names;
}

Model builtin_model(std::string_view name) {
  for (const auto& row : transformers()) {
    if (row.name != name) continue;
    return make_transformer(std::string(name), row.transformer, row.blocks, row.sequence);
  }
  for (const auto& row : networks) {
    if (row.name == name) return row.make();
  }
  fail_unknown("model", name, builtin_models());
}

}  // namespace stagecraft
