// Models of 2025 and 2026 which no row describes, most of them language parts of models that see:
// Step 3.5, ERNIE 4.5 VL, Molmo 2, Muse, and readers of documents.

#include <algorithm>
#include <cmath>

#include "profiles/error.hpp"
#include "profiles/importers/families/families.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// Layers with experts, counted from 0: a list of numbers, or one with commas.
std::vector<std::int64_t> numbers_with_commas(Keys& keys, std::string_view name) {
  if (!keys.at(name).is_string()) return keys.numbers(name);
  std::vector<std::int64_t> numbers;
  for (const std::string& word : split(keys.word(name, ""), ',')) {
    const std::string plain = trim(word);
    if (plain.empty()) continue;
    const bool is_number = std::ranges::all_of(plain, [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number || plain.size() > 9)
      keys.fail(name, concat("expected numbers of layers with commas, found \"", plain, "\""));
    numbers.push_back(std::stoll(plain));
  }
  return numbers;
}

std::function<bool(int)> sparse_step_blocks(Keys& keys) {
  if (!keys.has("moe_layers_enum")) return [](int block) { return block >= 3; };
  const std::vector<std::int64_t> sparse = numbers_with_commas(keys, "moe_layers_enum");
  return [sparse](int block) { return std::ranges::find(sparse, block) != sparse.end(); };
}

/// Heads of each block: those with a window may have more. The library writes a member for each
/// of them; published files say it once.
std::vector<std::int64_t> heads_of_step_blocks(Keys& keys, const Sizes& sizes,
                                               const std::vector<std::string>& words) {
  std::int64_t sliding = sizes.heads;
  if (keys.has("attention_other_setting")) {
    Keys others(keys.at("attention_other_setting"), true);
    sliding = others.count("num_attention_heads", sliding);
    others.only("attention_type", {"sliding_attention"});
    others.same("num_attention_groups", sizes.key_value_heads);
    others.same("head_dim", sizes.head_width);
    others.ignore({"true_head_dim"});
    others.refuse_unread("step3p5");
  }
  sliding = keys.count("num_sliding_attention_heads", sliding);
  const bool has_own = keys.has("per_layer_config");
  const std::vector<std::optional<Json>> configs = configs_of_blocks(keys, sizes.blocks);
  std::vector<std::int64_t> heads;
  for (std::size_t block = 0; block < words.size(); ++block) {
    heads.push_back(words[block] == windowed && !has_own ? sliding : sizes.heads);
    if (configs[block]) {
      Keys layer(*configs[block], true);
      heads.back() = layer.count("num_attention_heads", sizes.heads);
      layer.refuse_unread("step3p5");
    }
    if (heads.back() % sizes.key_value_heads != 0) {
      keys.fail("num_sliding_attention_heads|attention_other_setting|per_layer_config",
                concat(sizes.key_value_heads, " key-value heads do not divide the ", heads.back(),
                       " heads of layer ", block));
    }
  }
  return heads;
}

/// The part of a head that is turned, in a block: a list has a number for each.
std::int64_t step_rotary_width(Keys& keys, std::int64_t width, std::size_t block,
                               const std::string& word) {
  if (!keys.has("partial_rotary_factors")) return rotary_width(keys, width, 1.0, word);
  const std::vector<Json> parts = keys.at("partial_rotary_factors").elements();
  if (block >= parts.size())
    keys.fail("partial_rotary_factors", concat("expected a number for layer ", block));
  const double part = parts[block].number();
  if (!(part >= 0 && part <= 1))
    parts[block].fail(concat("expected a part from 0 to 1, found ", part));
  return static_cast<std::int64_t>(std::floor(static_cast<double>(width) * part));
}

}  // namespace

/// Windows with more heads than the blocks that see all; gates of attention with a number for each
/// head; experts from the fourth block on.
Blueprint read_step3p5(Keys& keys) {
  keys.need({"moe_num_experts|n_routed_experts|num_local_experts", "moe_top_k|num_experts_per_tok",
             "moe_intermediate_size"});
  Defaults defaults{128815, 4096, 11264, 45, 64, 8, 128, 128000};
  defaults.key_value_heads = keys.count("num_key_value_heads|num_attention_groups", 8);
  const Sizes sizes = read_sizes(keys, defaults);
  Blueprint blueprint = start(keys, sizes, false);
  const std::int64_t modules = keys.natural("num_nextn_predict_layers|num_mtp_layers", 0);
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  shape.norms = QueryKeyNorm::shared;
  const bool by_head = !keys.has("gating") || !keys.at("gating").is_string() ||
                       keys.word("gating", "") == "per-head";
  shape.head_gate = by_head;
  shape.own_gate = !by_head;
  keys.same("use_head_wise_attn_gate", by_head);
  const std::int64_t window = keys.natural("sliding_window", 0);
  const std::vector<std::string> words = words_of_blocks(
      keys, "layer_types", sizes.blocks, {attends, windowed}, [](int) { return attends; }, modules);
  const std::vector<std::int64_t> heads = heads_of_step_blocks(keys, sizes, words);
  const std::vector<std::string> kinds =
      kinds_of_blocks(keys, sizes.blocks, sparse_step_blocks(keys), modules);
  const bool bias = keys.flag("mlp_bias", false);
  const MixtureShape mixing{
      .hidden = sizes.hidden,
      .experts = keys.count("n_routed_experts|moe_num_experts|num_local_experts", 288),
      .active = keys.count("num_experts_per_tok|moe_top_k", 8),
      .inner = keys.count("moe_intermediate_size", 1280),
      .shared_inner = keys.count("share_expert_dim|share_expert_dims", 1280),
      .shared_bias = bias};
  set_experts(keys, "num_experts_per_tok|moe_top_k", blueprint.numbers, mixing);
  const Steps dense = feed_forward(
      {.hidden = sizes.hidden, .inner = sizes.inner, .up_bias = bias, .down_bias = bias});
  keys.ignore({"moe_layers_enum",
               "mtp_layer_types",
               "mtp_mlp_layer_types",
               "swiglu_limits",
               "swiglu_limits_shared",
               "moe_router_scaling_factor",
               "moe_router_activation",
               "use_moe",
               "use_moe_router_bias",
               "moe_every_n_layer",
               "moe_layer_offset",
               "need_fp32_gate",
               "norm_expert_weight",
               "use_rope_layers",
               "yarn_only_types",
               "sink",
               "use_qk_norm",
               "max_seq_len",
               "zero_centered",
               "att_impl_type",
               "use_bidirectional_attention",
               "partial_rotary_factors"});
  for (std::size_t block = 0; block < words.size(); ++block) {
    const bool slides = words[block] == windowed;
    shape.heads = heads[block];
    shape.window = slides ? window : 0;
    shape.rotary_width = step_rotary_width(keys, sizes.head_width, block, words[block]);
    blueprint.blocks.push_back(mixed_block(sizes.hidden, attention(shape),
                                           kinds[block] == "dense" ? dense : mixture(mixing)));
  }
  return blueprint;
}

/// Tokens of texts and of images have experts of their own; the latter are kept, and the work is
/// that of texts.
Blueprint read_ernie4_5_vl(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {103424, 2560, 12288, 28, 20, 4, 0, 131072, true});
  Blueprint blueprint = start(keys, sizes, true);
  const bool bias = keys.flag("use_bias", false);
  GroupedAttention shape = grouped(sizes, bias);
  shape.rotary_width = sizes.head_width;
  std::vector<std::int64_t> widths = keys.numbers("moe_intermediate_size");
  if (widths.empty()) widths = {1536, 512};
  if (widths.size() != 2 || widths[0] < 1 || widths[1] < 1) {
    keys.fail("moe_intermediate_size",
              "expected two widths, of experts for texts and for images, of at least 1");
  }
  MixtureShape mixing{.hidden = sizes.hidden,
                      .experts = keys.count("moe_num_experts|num_experts", 64),
                      .active = keys.count("moe_k|num_experts_per_tok", 6),
                      .inner = widths[0],
                      .shared_inner = keys.natural("moe_num_shared_experts", 2) * widths[0],
                      .shared_bias = bias};
  mixing.trained_scores = mixing.experts;
  set_experts(keys, "moe_k|num_experts_per_tok", blueprint.numbers, mixing);
  keys.ignore({"moe_norm_min", "moe_capacity", "moe_gate", "moe_use_aux_free"});
  Steps sparse = mixture(mixing);
  // The second router, its scores, and its experts.
  sparse.push_back(numbers("router bias", mixing.experts * (sizes.hidden + 1)));
  Step seeing = numbers("experts of images", mixing.experts * 3 * widths[1] * sizes.hidden);
  seeing.of_experts = true;
  sparse.push_back(seeing);
  const Steps dense = feed_forward(
      {.hidden = sizes.hidden, .inner = sizes.inner, .up_bias = bias, .down_bias = bias});
  for (const std::string& kind :
       kinds_of_blocks(keys, sizes.blocks, [](int block) { return block > 0; })) {
    blueprint.blocks.push_back(
        mixed_block(sizes.hidden, attention(shape), kind == "dense" ? dense : sparse));
  }
  blueprint.notes.push_back(
      concat("experts of images (", mixing.experts, " in each layer that has experts, ", widths[1],
             " wide) are counted as parameters; tokens do the work of texts' experts"));
  return blueprint;
}

/// The words' table has rows for tokens of images behind the vocabulary, which the head lacks.
Blueprint read_molmo2(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {151936, 4096, 12288, 36, 32, 8, 128, 36864});
  const bool after = keys.flag("norm_after", false);
  Blueprint blueprint = start(keys, sizes, false);
  const std::int64_t rows = sizes.vocabulary + keys.natural("additional_vocab_size", 128);
  blueprint.embedding = {lookup("words", rows, sizes.hidden, Split::inputs)};
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias|qkv_bias", false));
  shape.output_bias = false;
  keys.only("qk_norm_type", {"qwen3", "olmo"});
  shape.norms =
      keys.word("qk_norm_type", "qwen3") == "olmo" ? QueryKeyNorm::together : QueryKeyNorm::shared;
  shape.rotary_width = sizes.head_width;
  keys.same("use_qk_norm", true);
  keys.ignore({"rope_scaling_layers", "embedding_dropout", "residual_dropout"});
  const Steps feeding = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  Steps block = mixed_block(sizes.hidden, attention(shape), feeding);
  if (after) {
    block = attention(shape);
    block.push_back(norm("first norm", sizes.hidden));
    add_steps(block, feeding);
    block.push_back(norm("second norm", sizes.hidden));
  }
  blueprint.blocks.assign(static_cast<std::size_t>(sizes.blocks), block);
  blueprint.own_head = true;
  return blueprint;
}

namespace {

/// What norms the embedding and the halves' outputs, and gates attention (Muse).
GroupedAttention muse_attention(Keys& keys, const Sizes& sizes) {
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  shape.norms = QueryKeyNorm::shared;
  shape.norm_weights = NormWeights::none;
  shape.own_gate = true;
  return shape;
}

std::vector<std::string> muse_words(Keys& keys, int blocks) {
  keys.ignore({"qk_scale_factor", "output_multiplier", "post_norm_eps", "layer_rope_theta"});
  return words_of_blocks(keys, "layer_types", blocks, {attends, windowed}, [&](int block) {
    return (blocks - 1 - block) % 4 == 0 ? attends : windowed;
  });
}

/// Blocks without a base are not turned by positions.
std::int64_t muse_rotary_width(Keys& keys, const Sizes& sizes, std::size_t block) {
  if (!keys.has("layer_rope_theta"))
    return (static_cast<std::size_t>(sizes.blocks) - 1 - block) % 4 == 0 ? 0 : sizes.head_width;
  const std::vector<Json> bases = keys.at("layer_rope_theta").elements();
  if (bases.size() != static_cast<std::size_t>(sizes.blocks)) {
    keys.fail("layer_rope_theta", concat("expected a number for each of the ", sizes.blocks,
                                         " layers, found ", bases.size()));
  }
  return bases[block].number() == 0 ? 0 : sizes.head_width;
}

}  // namespace

Blueprint read_muse_glimmer(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {202048, 6656, 19968, 52, 32, 2, 128, 131072});
  Blueprint blueprint = start(keys, sizes, false);
  blueprint.embedding.push_back(norm("embedding norm", sizes.hidden, NormWeights::none));
  GroupedAttention shape = muse_attention(keys, sizes);
  const std::int64_t window = keys.count("sliding_window", 2048);
  const Steps feeding = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  const std::vector<std::string> words = muse_words(keys, sizes.blocks);
  for (std::size_t block = 0; block < words.size(); ++block) {
    shape.window = words[block] == windowed ? window : 0;
    shape.rotary_width = muse_rotary_width(keys, sizes, block);
    Steps steps{norm("first norm", sizes.hidden)};
    add_steps(steps, attention(shape));
    steps.push_back(norm("second norm", sizes.hidden));
    steps.push_back(norm("third norm", sizes.hidden));
    add_steps(steps, feeding);
    steps.push_back(norm("fourth norm", sizes.hidden));
    blueprint.blocks.push_back(steps);
  }
  return blueprint;
}

/// Experts of a narrower width, and gates of what each half adds.
Blueprint read_muse_spark(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {202048, 8192, 16384, 62, 128, 16, 64, 1048576});
  Blueprint blueprint = start(keys, sizes, false);
  const auto none = NormWeights::none;
  blueprint.embedding.push_back(norm("embedding norm", sizes.hidden, none));
  GroupedAttention shape = muse_attention(keys, sizes);
  shape.output_norm = true;
  shape.output_norm_weights = none;
  const std::int64_t window = keys.count("sliding_window", 2048);
  const MixtureShape mixing{.hidden = sizes.hidden,
                            .experts = keys.count("num_local_experts|num_experts", 256),
                            .active = keys.count("num_experts_per_tok", 8),
                            .inner = keys.count("moe_intermediate_size", 4096),
                            .latent = keys.count("moe_hidden_size", 4096)};
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  Steps sparse = mixture(mixing);
  // Norms of the narrower width, before the experts and of what each of them says.
  sparse.push_back(norm("state norm", mixing.latent));
  sparse.push_back(norm("output norm", mixing.latent));
  const Steps dense = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  keys.ignore({"residual_gate_temperature"});
  const std::vector<std::string> words = muse_words(keys, sizes.blocks);
  const std::vector<std::string> kinds =
      kinds_of_blocks(keys, sizes.blocks, [](int) { return true; });
  for (std::size_t block = 0; block < words.size(); ++block) {
    shape.window = words[block] == windowed ? window : 0;
    shape.rotary_width = muse_rotary_width(keys, sizes, block);
    Steps steps{norm("first norm", sizes.hidden)};
    add_steps(steps, attention(shape));
    steps.push_back(norm("second norm", sizes.hidden, none));
    steps.push_back(product("residual", 1, sizes.hidden));
    steps.push_back(norm("third norm", sizes.hidden));
    add_steps(steps, kinds[block] == "dense" ? dense : sparse);
    steps.push_back(norm("fourth norm", sizes.hidden));
    steps.push_back(product("residual", 1, sizes.hidden));
    blueprint.blocks.push_back(steps);
  }
  return blueprint;
}

namespace {

/// Readers of documents with DeepSeek's experts behind usual attention.
struct ReaderRow {
  Defaults sizes;
  std::int64_t active = 0, inner = 0, dense = 0;
};

Blueprint read_document_reader(Keys& keys, const ReaderRow& row) {
  const Sizes sizes = read_sizes(keys, row.sizes, Unread::head_width);
  Blueprint blueprint = start(keys, sizes, false);
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  shape.rotary_width = sizes.head_width;
  const bool bias = keys.flag("mlp_bias", false);
  MixtureShape mixing{.hidden = sizes.hidden,
                      .experts = keys.count("n_routed_experts|num_experts", 64),
                      .active = keys.count("num_experts_per_tok", row.active),
                      .inner = keys.count("moe_intermediate_size", row.inner)};
  mixing.shared_inner = keys.natural("n_shared_experts", 2) * mixing.inner;
  mixing.shared_bias = bias;
  const bool chooses_any = keys.word("topk_method", "greedy") == "greedy";
  if (!chooses_any) set_groups(keys, {}, mixing, blueprint.notes);
  keys.ignore({"n_group", "topk_group"});
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  const Steps dense = feed_forward(
      {.hidden = sizes.hidden, .inner = sizes.inner, .up_bias = bias, .down_bias = bias});
  const std::int64_t first = keys.natural("first_k_dense_replace", row.dense);
  // Windows are over what is written, once it is: a text that is read at once is seen in whole.
  words_of_blocks(keys, "layer_types", sizes.blocks, {attends, "reference_sliding_attention"},
                  [](int) { return attends; });
  keys.ignore({"sliding_window"});
  for (const std::string& kind :
       kinds_of_blocks(keys, sizes.blocks, [&](int block) { return block >= first; })) {
    blueprint.blocks.push_back(
        mixed_block(sizes.hidden, attention(shape), kind == "dense" ? dense : mixture(mixing)));
  }
  return blueprint;
}

}  // namespace

Blueprint read_deepseek_ocr2(Keys& keys) {
  return read_document_reader(
      keys, {.sizes = {102400, 4096, 11008, 32, 32, 0, 0, 2048}, .active = 0, .inner = 1407});
}

Blueprint read_unlimited_ocr(Keys& keys) {
  return read_document_reader(
      keys,
      {.sizes = {129280, 1280, 6848, 12, 10, 10, 0, 32768}, .active = 6, .inner = 896, .dense = 1});
}

}  // namespace stagecraft
