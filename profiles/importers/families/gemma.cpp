// Gemma 3n and 4: embeddings for each layer, keys that layers share, states side by side.

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/importers/families/families.hpp"

namespace stagecraft {

namespace {

/// Words once more, a few numbers for each layer; and their projection from the states.
struct PerLayerInput {
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;  ///< of a layer's part; 0: there is none
};

void add_per_layer_embedding(Blueprint& blueprint, const PerLayerInput& input, int blocks) {
  if (input.width == 0) return;
  const std::int64_t all = input.width * blocks;
  blueprint.embedding.push_back(lookup("per-layer words", input.vocabulary, all, Split::inputs));
  blueprint.embedding.push_back(product("per-layer projection", all, blueprint.numbers.hidden));
  blueprint.embedding.push_back(norm("embedding norm", input.width));
}

/// A layer's gate and projection of its part.
void add_per_layer_input(Steps& steps, const PerLayerInput& input, std::int64_t hidden) {
  if (input.width == 0) return;
  steps.push_back(product("per-layer gate", input.width, hidden));
  steps.push_back(product("per-layer projection", hidden, input.width));
  steps.push_back(norm("output norm", hidden));
}

std::int64_t shared_layers(Keys& keys, int blocks, std::int64_t otherwise) {
  const std::int64_t shared = keys.natural("num_kv_shared_layers", otherwise);
  if (shared >= blocks && shared > 0) {
    keys.fail("num_kv_shared_layers",
              concat(shared, " of ", blocks, " layers cannot take keys of earlier ones"));
  }
  return shared;
}

GroupedAttention gemma_attention(Keys& keys, const Sizes& sizes) {
  const bool bias = keys.flag("attention_bias", false);
  return {.hidden = sizes.hidden,
          .heads = sizes.heads,
          .key_value_heads = sizes.key_value_heads,
          .width = sizes.head_width,
          .query_bias = bias,
          .key_bias = bias,
          .value_bias = bias,
          .output_bias = bias,
          .norms = QueryKeyNorm::shared,
          .rotary_width = sizes.head_width};
}

const std::vector<std::string> gemma_words{"full_attention", "sliding_attention"};

/// An inner width for all blocks, or one for each.
std::vector<std::int64_t> inner_widths(Keys& keys, int blocks, std::int64_t otherwise) {
  const bool is_list = keys.has("intermediate_size") && keys.at("intermediate_size").is_array();
  if (!is_list) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(blocks),
                                     keys.count("intermediate_size", otherwise));
  }
  std::vector<std::int64_t> widths = keys.numbers("intermediate_size");
  if (std::cmp_not_equal(widths.size(), blocks)) {
    keys.fail("intermediate_size", concat("expected a width for each of the ", blocks,
                                          " layers, found ", widths.size()));
  }
  if (*std::min_element(widths.begin(), widths.end()) < 1)
    keys.fail("intermediate_size", "expected widths of at least 1");
  return widths;
}

/// Sizes where "intermediate_size" may be a list.
Sizes read_gemma_sizes(Keys& keys, const Defaults& defaults) {
  Sizes sizes;
  sizes.hidden = keys.count("hidden_size", defaults.hidden);
  sizes.blocks = read_blocks(keys, "num_hidden_layers", defaults.blocks);
  sizes.heads = keys.count("num_attention_heads", defaults.heads);
  sizes.key_value_heads = keys.count("num_key_value_heads", defaults.key_value_heads);
  if (sizes.heads % sizes.key_value_heads != 0) {
    keys.fail("num_key_value_heads",
              concat(sizes.key_value_heads, " key-value heads do not divide the ", sizes.heads,
                     " attention heads"));
  }
  sizes.head_width = keys.count("head_dim", defaults.head_width);
  sizes.vocabulary = keys.count("vocab_size", defaults.vocabulary);
  sizes.positions = keys.count("max_position_embeddings", defaults.positions);
  sizes.inner = 1;
  return sizes;
}

}  // namespace

Blueprint read_gemma3n(Keys& keys) {
  const Sizes sizes = read_gemma_sizes(keys, {262400, 2048, 0, 35, 8, 2, 256, 32768, true});
  const std::int64_t hidden = sizes.hidden;
  const std::vector<std::int64_t> inner = inner_widths(keys, sizes.blocks, 16384);
  const PerLayerInput input{keys.count("vocab_size_per_layer_input", 262144),
                            keys.count("hidden_size_per_layer_input", 256)};
  const std::int64_t streams = keys.count("altup_num_inputs", 4);
  const std::int64_t rank = keys.count("laurel_rank", 64);
  const std::int64_t shared = shared_layers(keys, sizes.blocks, 15);
  const std::int64_t window = keys.count("sliding_window", 512);
  keys.ignore({"altup_active_idx", "altup_coef_clip", "altup_correct_scale",
               "activation_sparsity_pattern", "rope_local_base_freq"});
  Blueprint blueprint = start(keys, sizes, true);
  blueprint.numbers.feed_forward = *std::max_element(inner.begin(), inner.end());
  blueprint.numbers.streams = streams;
  add_per_layer_embedding(blueprint, input, sizes.blocks);
  for (std::int64_t stream = 1; stream < streams; ++stream) {
    blueprint.embedding.push_back(product("embedding projection", hidden, hidden));
    blueprint.last.insert(blueprint.last.begin(), product("head projection", hidden, hidden));
  }
  const std::vector<std::string> words = words_of_blocks(
      keys, "layer_types", sizes.blocks, gemma_words,
      [](int block) { return (block + 1) % 5 == 0 ? "full_attention" : "sliding_attention"; });
  GroupedAttention shape = gemma_attention(keys, sizes);
  for (int i = 0; i < sizes.blocks; ++i) {
    const auto at = static_cast<std::size_t>(i);
    shape.borrows_keys = i >= sizes.blocks - shared;
    shape.window = words[at] == "sliding_attention" ? window : 0;
    // Predictions of all states, a router of modalities with its norm, and their correction.
    Steps block{
        numbers("alternating updates", streams * streams * streams + streams * streams + hidden),
        norm("state norm", hidden),
        product("alternating updates", streams, hidden),
        norm("first norm", hidden),
        product("low-rank residual", rank, hidden),
        product("low-rank residual", hidden, rank),
        norm("output norm", hidden)};
    add_steps(block, attention(shape));
    block.push_back(norm("second norm", hidden));
    block.push_back(norm("third norm", hidden));
    add_steps(block, feed_forward({.hidden = hidden, .inner = inner[at]}));
    block.push_back(norm("fourth norm", hidden));
    add_per_layer_input(block, input, hidden);
    blueprint.blocks.push_back(block);
  }
  return blueprint;
}

namespace {

/// What a layer has of its own.
struct LayerOverride {
  std::int64_t head_width = 0;
  std::int64_t key_value_heads = 0;
};

/// "per_layer_config" as the library writes it, or its defaults for layers that see all tokens.
std::vector<LayerOverride> read_overrides(Keys& keys, const Sizes& sizes,
                                          const std::vector<std::string>& words, bool shares) {
  std::vector<LayerOverride> overrides(words.size(), {sizes.head_width, sizes.key_value_heads});
  if (keys.is_null("per_layer_config")) {  // not the same as absent: no layer differs
    keys.ignore({"global_head_dim", "num_global_key_value_heads"});
    return overrides;
  }
  if (keys.has("per_layer_config")) {
    const std::vector<std::optional<Json>> configs = configs_of_blocks(keys, sizes.blocks);
    for (std::size_t block = 0; block < configs.size(); ++block) {
      if (!configs[block]) continue;
      Keys layer(*configs[block], true);
      LayerOverride& own = overrides[block];
      own.head_width = layer.count("head_dim", own.head_width);
      own.key_value_heads = layer.count("num_key_value_heads", own.key_value_heads);
      layer.refuse_unread("gemma4_text");
    }
    keys.ignore({"global_head_dim", "num_global_key_value_heads"});
    return overrides;
  }
  const std::int64_t width = keys.count("global_head_dim", 512);
  const std::int64_t heads = keys.count("num_global_key_value_heads", sizes.key_value_heads);
  for (std::size_t block = 0; block < words.size(); ++block) {
    if (words[block] == "full_attention")
      overrides[block] = {width, shares ? heads : sizes.key_value_heads};
  }
  return overrides;
}

/// The experts of Gemma 4 beside the dense feed-forward, with three norms more and two scales.
Steps gemma4_experts(Keys& keys, std::int64_t hidden, Transformer& numbers_of_model) {
  const MixtureShape mixing{.hidden = hidden,
                            .experts = keys.count("num_experts", 1),
                            .active = keys.count("top_k_experts|num_experts_per_tok", 1),
                            .inner = keys.count("moe_intermediate_size", 1)};
  set_experts(keys, "top_k_experts|num_experts_per_tok", numbers_of_model, mixing);
  Steps steps{numbers("expert scales", hidden + mixing.experts)};
  add_steps(steps, mixture(mixing));
  steps.push_back(norm("output norm", hidden));
  steps.push_back(norm("output norm", hidden));
  steps.push_back(norm("state norm", hidden));
  return steps;
}

/// What Gemma 4's text models differ in.
struct Gemma4Row {
  std::int64_t positions = 0;
  std::int64_t window = 0;
  bool is_unified = false;  ///< no encoder beside it; no embeddings for each layer, no experts
};

Blueprint read_gemma4_family(Keys& keys, const Gemma4Row& row) {
  const Sizes sizes = read_gemma_sizes(keys, {262144, 2304, 0, 30, 8, 4, 256, row.positions, true});
  const std::int64_t hidden = sizes.hidden;
  const std::int64_t inner = keys.count("intermediate_size", 9216);
  PerLayerInput input;
  if (!row.is_unified) {
    input = {keys.count("vocab_size_per_layer_input", 262144),
             keys.natural("hidden_size_per_layer_input", 256)};
  }
  const std::int64_t shared = shared_layers(keys, sizes.blocks, 0);
  const std::int64_t window = keys.count("sliding_window", row.window);
  const bool one_for_both = keys.flag("attention_k_eq_v", false);
  const bool wide = keys.flag("use_double_wide_mlp", false);
  std::vector<std::string> words = words_of_blocks(
      keys, "layer_types", sizes.blocks, gemma_words,
      [](int block) { return (block + 1) % 6 == 0 ? "full_attention" : "sliding_attention"; });
  words.back() = "full_attention";
  const std::vector<LayerOverride> own = read_overrides(keys, sizes, words, one_for_both);
  Blueprint blueprint = start(keys, sizes, true);
  blueprint.numbers.feed_forward = inner;
  add_per_layer_embedding(blueprint, input, sizes.blocks);
  Steps experts;
  if (!row.is_unified) {
    if (keys.flag("enable_moe_block", false))
      experts = gemma4_experts(keys, hidden, blueprint.numbers);
    keys.ignore({"num_experts", "top_k_experts", "moe_intermediate_size"});
  }
  // Images see each other; between words the mask is causal all the same.
  if (keys.word("use_bidirectional_attention", "") != "vision")
    keys.only("use_bidirectional_attention", {"vision"});
  GroupedAttention shape = gemma_attention(keys, sizes);
  for (int i = 0; i < sizes.blocks; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool sees_all = words[at] == "full_attention";
    shape.borrows_keys = i >= sizes.blocks - shared;
    shape.value_is_key = one_for_both && sees_all;
    shape.window = sees_all ? 0 : window;
    shape.width = shape.rotary_width = own[at].head_width;
    shape.key_value_heads = own[at].key_value_heads;
    Steps block{norm("first norm", hidden)};
    add_steps(block, attention(shape));
    block.push_back(norm("second norm", hidden));
    block.push_back(norm("third norm", hidden));
    const std::int64_t width = wide && shape.borrows_keys ? 2 * inner : inner;
    add_steps(block, feed_forward({.hidden = hidden, .inner = width}));
    add_steps(block, experts);
    block.push_back(norm("fourth norm", hidden));
    add_per_layer_input(block, input, hidden);
    blueprint.blocks.push_back(block);
  }
  return blueprint;
}

}  // namespace

Blueprint read_gemma4(Keys& keys) {
  return read_gemma4_family(keys, {.positions = 131072, .window = 512});
}

Blueprint read_gemma4_unified(Keys& keys) {
  return read_gemma4_family(keys, {.positions = 262144, .window = 1024, .is_unified = true});
}

}  // namespace stagecraft
