// Later families with recurrences or short convolutions beside attention or within it: Ling 3,
// Jamba, OLMo Hybrid, RecurrentGemma, LFM3 and ZAYA.

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/importers/families/families.hpp"

namespace stagecraft {

namespace {

/// "num_experts" and their like under the names that Ling's files have.
MixtureShape read_ling_mixture(Keys& keys, std::int64_t hidden, std::vector<std::string>& notes) {
  MixtureShape shape{.hidden = hidden,
                     .experts = keys.count("num_experts|num_local_experts|n_routed_experts", 512),
                     .active = keys.count("num_experts_per_token|num_experts_per_tok", 8),
                     .inner = keys.count("moe_intermediate_size", 768)};
  shape.shared_inner = keys.natural("num_shared_experts|n_shared_experts", 1) * shape.inner;
  set_groups(keys, {.count = 8, .active = 4}, shape, notes);
  return shape;
}

}  // namespace

/// Latent attention every sixth block, Kimi Delta Attention in the others.
Blueprint read_bailing_hybrid(Keys& keys) {
  Sizes sizes = read_sizes(keys, {.vocabulary = 157184,
                                  .hidden = 2560,
                                  .inner = 6144,
                                  .blocks = 42,
                                  .heads = 32,
                                  .head_width = 128,
                                  .positions = 262144,
                                  .latent = true});
  sizes.positions = keys.count("max_position_embeddings|model_max_length", sizes.positions);
  Blueprint blueprint = start(keys, sizes, false);
  blueprint.own_head = true;
  const LatentShape attending{.hidden = sizes.hidden,
                              .heads = sizes.heads,
                              .key_value_rank = keys.count("kv_lora_rank", 512),
                              .rotary_width = keys.count("qk_rope_head_dim", 64),
                              .plain_width = keys.count("qk_nope_head_dim", 128),
                              .value_width = keys.count("v_head_dim", 128),
                              .bias = keys.flag("attention_bias", false),
                              .head_gate = true};
  // Files that the library wrote have the width of heads that recur under a name of their own.
  const KimiDeltaShape recurring{
      .hidden = sizes.hidden,
      .heads = keys.count("linear_num_heads", sizes.heads),
      .width = keys.count("linear_head_dim", sizes.head_width),
      .kernel = keys.count("linear_conv_kernel_dim", keys.count("short_conv_kernel_size", 4)),
      .low_ranks = false};
  const MixtureShape mixing = read_ling_mixture(keys, sizes.hidden, blueprint.notes);
  set_experts(keys, "num_experts_per_token|num_experts_per_tok", blueprint.numbers, mixing);
  const std::int64_t group = keys.count("layer_group_size", 6);
  const std::int64_t first = keys.natural("first_k_dense_replace", 2);
  const std::vector<std::string> words =
      words_of_blocks(keys, "layer_types", sizes.blocks, {attends, recurs},
                      [&](int block) { return (block + 1) % group == 0 ? attends : recurs; });
  const std::vector<std::string> kinds =
      kinds_of_blocks(keys, sizes.blocks, [&](int block) { return block >= first; });
  keys.ignore({"qk_head_dim", "head_dim", "num_key_value_heads", "moe_renormalize", "kda_safe_gate",
               "kda_lower_bound", "mtp_loss_scaling_factor"});
  const Steps dense = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  for (std::size_t block = 0; block < words.size(); ++block) {
    blueprint.blocks.push_back(mixed_block(
        sizes.hidden, words[block] == attends ? latent_attention(attending) : kimi_delta(recurring),
        kinds[block] == "dense" ? dense : mixture(mixing)));
  }
  return blueprint;
}

namespace {

/// Every `period`-th block from `offset` on.
struct Turn {
  std::int64_t period = 1;
  std::int64_t offset = 0;
  bool has(int block) const { return block % period == offset; }
};

Turn read_turn(Keys& keys, const std::string& name, const Turn& otherwise) {
  const Turn turn{.period = keys.count(name + "_period", otherwise.period),
                  .offset = keys.natural(name + "_offset", otherwise.offset)};
  if (turn.offset >= turn.period) {
    keys.fail(name + "_offset", concat("expected less than ", name, "_period = ", turn.period,
                                       ", found ", turn.offset));
  }
  return turn;
}

}  // namespace

/// Mamba with norms within; some blocks attend instead, and some have experts.
Blueprint read_jamba(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {65536, 4096, 14336, 32, 32, 8, 0, 262144});
  Blueprint blueprint = start(keys, sizes, false);
  const bool automatic = !keys.has("mamba_dt_rank") || keys.at("mamba_dt_rank").is_string();
  const std::int64_t rank = (sizes.hidden + 15) / 16;
  const MambaShape recurring{.hidden = sizes.hidden,
                             .inner = keys.count("mamba_expand", 2) * sizes.hidden,
                             .state = keys.count("mamba_d_state", 16),
                             .rank = automatic ? rank : keys.count("mamba_dt_rank", rank),
                             .kernel = keys.count("mamba_d_conv", 4),
                             .convolution_bias = keys.flag("mamba_conv_bias", true),
                             .bias = keys.flag("mamba_proj_bias", false),
                             .normed = true};
  const MixtureShape mixing{.hidden = sizes.hidden,
                            .experts = keys.count("num_experts|num_local_experts", 16),
                            .active = keys.count("num_experts_per_tok", 2),
                            .inner = sizes.inner};
  const Turn attending = read_turn(keys, "attn_layer", {.period = 8, .offset = 4});
  const Turn sparse = read_turn(keys, "expert_layer", {.period = 2, .offset = 1});
  const bool mixes = mixing.experts > 1 && sparse.offset < sizes.blocks;
  if (mixes) set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  keys.ignore({"use_mambapy", "use_associative_scan", "mamba_inner_layernorms", "layers_block_type",
               "layer_types"});
  const Steps dense = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  for (int block = 0; block < sizes.blocks; ++block) {
    blueprint.blocks.push_back(mixed_block(
        sizes.hidden, attending.has(block) ? attention(grouped(sizes, false)) : mamba(recurring),
        mixes && sparse.has(block) ? mixture(mixing) : dense));
  }
  return blueprint;
}

/// The gated delta rule behind norms; every fourth block attends, and its norms are behind.
Blueprint read_olmo_hybrid(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {100352, 3840, 11008, 32, 30, 0, 0, 65536});
  Blueprint blueprint = start(keys, sizes, false);
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  shape.norms = QueryKeyNorm::together;
  shape.rotary_width = keys.is_null("rope_parameters") ? 0 : sizes.head_width;
  DeltaShape delta{.hidden = sizes.hidden,
                   .key_heads = keys.count("linear_num_key_heads", sizes.heads),
                   .value_heads = keys.count("linear_num_value_heads", sizes.heads),
                   .kernel = keys.count("linear_conv_kernel_dim", 4)};
  const std::int64_t width = std::max<std::int64_t>(3 * sizes.hidden / (4 * delta.key_heads), 1);
  delta.key_width = keys.count("linear_key_head_dim", width);
  delta.value_width = keys.count("linear_value_head_dim", 2 * delta.key_width);
  keys.ignore({"linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max",
               "linear_dt_init_floor", "linear_allow_neg_eigval"});
  const Steps feeding = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  const bool one_attends = sizes.blocks < 4;  // then it is the last
  for (const std::string& word :
       words_of_blocks(keys, "layer_types", sizes.blocks, {attends, recurs}, [&](int block) {
         return block % 4 == 3 || (one_attends && block + 1 == sizes.blocks) ? attends : recurs;
       })) {
    Steps block;
    if (word == attends) {
      block = attention(shape);
      block.push_back(norm("second norm", sizes.hidden));
      add_steps(block, feeding);
      block.push_back(norm("fourth norm", sizes.hidden));
    } else {
      block = mixed_block(sizes.hidden, gated_delta(delta), feeding);
    }
    blueprint.blocks.push_back(block);
  }
  return blueprint;
}

namespace {

/// A few words that repeat, "recurrent" and "attention".
std::vector<std::string> griffin_words(Keys& keys, int blocks) {
  std::vector<std::string> pattern = keys.words("block_types|_block_types");
  if (pattern.empty()) pattern = {"recurrent", "recurrent", "attention"};
  for (const std::string& word : pattern) {
    if (word != "recurrent" && word != "attention") {
      keys.fail("block_types|_block_types",
                concat("\"", word, "\" is not known here; known: attention, recurrent"));
    }
  }
  std::vector<std::string> words;
  for (std::size_t block = 0; std::cmp_less(block, blocks); ++block)
    words.push_back(pattern[block % pattern.size()]);
  return words;
}

}  // namespace

Blueprint read_recurrent_gemma(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {256000, 2560, 7680, 26, 10, 0, 0, 8192, true});
  Blueprint blueprint = start(keys, sizes, true);
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  shape.output_bias = true;
  shape.width = sizes.hidden / sizes.heads;
  shape.window = keys.count("attention_window_size|sliding_window", 2048);
  shape.rotary_width = rotary_width(keys, shape.width, 0.5);
  const GriffinShape recurring{.hidden = sizes.hidden,
                               .width = keys.count("lru_width", sizes.hidden),
                               .heads = sizes.heads,
                               .kernel = keys.count("conv1d_width", 4)};
  if (recurring.width % recurring.heads != 0) {
    keys.fail("lru_width", concat(recurring.heads, " heads do not divide the ", recurring.width,
                                  " numbers of the recurrence"));
  }
  // The file has the width of both halves of the feed-forward's way up.
  const Steps feeding = feed_forward({.hidden = sizes.hidden,
                                      .inner = std::max<std::int64_t>(sizes.inner / 2, 1),
                                      .up_bias = true,
                                      .down_bias = true});
  keys.ignore({"logits_soft_cap", "w_init_variance_scale", "final_w_init_variance_scale",
               "embeddings_scale_by_sqrt_dim", "head_dim", "layers_block_type", "layer_types"});
  for (const std::string& word : griffin_words(keys, sizes.blocks)) {
    blueprint.blocks.push_back(mixed_block(
        sizes.hidden, word == "attention" ? attention(shape) : griffin(recurring), feeding));
  }
  return blueprint;
}

/// A short convolution, a window, a convolution, all tokens; norms around all.
Blueprint read_lfm3(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {128000, 2048, 7680, 24, 16, 4, 128, 128000, true});
  Blueprint blueprint = start(keys, sizes, true);
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  shape.norms = QueryKeyNorm::shared;
  shape.head_gate = keys.flag("use_attention_gate", true);
  const Steps convolving =
      short_convolution(sizes.hidden, keys.count("conv_L_cache", 7), keys.flag("conv_bias", false));
  const std::int64_t window = keys.natural("sliding_window", 256);
  const bool around = keys.flag("use_sandwich_norm", true);
  const Steps feeding = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  for (const std::string& word : words_of_blocks(
           keys, "layer_types", sizes.blocks, {attends, windowed, "conv"}, [](int block) {
             if (block % 4 == 2) return attends;
             return block % 4 == 0 && block > 0 ? windowed : "conv";
           })) {
    const bool slides = word == windowed;
    shape.window = slides ? window : 0;
    shape.rotary_width = rotary_width(keys, sizes.head_width, slides ? 1.0 : 0.5, word);
    Steps block{norm("first norm", sizes.hidden)};
    add_steps(block, word == "conv" ? convolving : attention(shape));
    if (around) block.push_back(norm("second norm", sizes.hidden));
    block.push_back(norm(around ? "third norm" : "second norm", sizes.hidden));
    add_steps(block, feeding);
    if (around) block.push_back(norm("fourth norm", sizes.hidden));
    blueprint.blocks.push_back(block);
  }
  return blueprint;
}

namespace {

/// Queries and keys are convolved with those of tokens just before: each number by itself, then
/// each head's numbers together. Half of each value is the token's before.
Steps convolved_attention(Keys& keys, const GroupedAttention& shape) {
  const std::int64_t heads = shape.heads + shape.key_value_heads;
  const std::int64_t channels = heads * shape.width;
  const Step alone{.kind = StepKind::convolution,
                   .name = "mixer convolution",
                   .outputs = keys.count("cca_time0", 2),
                   .inputs = channels,
                   .bias = true,
                   .split = Split::outputs};
  const Step together =
      divided("mixer convolution", channels, keys.count("cca_time1", 2) * shape.width, true, heads);
  const Steps near{alone, together, numbers("multipliers", shape.key_value_heads)};
  Steps steps = attention(shape);
  const auto values = std::find_if(steps.begin(), steps.end(),
                                   [](const Step& step) { return step.name == "value"; });
  steps.insert(values + 1, near.begin(), near.end());
  return steps;
}

}  // namespace

/// A small network routes; but for the first block, it also reads the state of the router before.
/// One of its choices is no expert.
Blueprint read_zaya(Keys& keys) {
  keys.need({"num_experts", "moe_intermediate_size"});
  const Sizes sizes = read_sizes(keys, {262272, 2048, 0, 40, 8, 2, 128, 131072, true});
  Blueprint blueprint = start(keys, sizes, true);
  blueprint.embedding.push_back(numbers("multipliers", 2 * sizes.hidden));
  blueprint.head_bias = keys.flag("lm_head_bias", false);
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  shape.norms = QueryKeyNorm::shared;
  shape.norm_weights = NormWeights::none;
  const MixtureShape mixing{.hidden = sizes.hidden,
                            .experts = keys.count("num_experts", 16),
                            .active = keys.count("num_experts_per_tok", 1),
                            .inner = keys.count("moe_intermediate_size", 2048),
                            .idle_experts = 1,
                            .router_width = keys.count("router_hidden_size", 256)};
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  if (mixing.active != 1)
    keys.fail("num_experts_per_tok", "only 1 is known, as the class in transformers knows it");
  const std::string slides = "hybrid_sliding";
  const std::int64_t window = keys.natural("sliding_window", 0);
  for (const std::string& word : words_of_blocks(
           keys, "layer_types", sizes.blocks, {"hybrid", slides}, [](int) { return "hybrid"; })) {
    if (word == slides && window == 0)
      keys.fail("sliding_window", "expected a window for the layers that have one, found none");
    shape.window = word == slides ? window : 0;
    shape.rotary_width = rotary_width(keys, sizes.head_width, 0.5, word);
    Steps feeding = mixture(mixing);
    if (!blueprint.blocks.empty()) feeding.push_back(numbers("router bias", mixing.router_width));
    // What is added up has scales and shifts: the output's and the state's of each half.
    feeding.push_back(numbers("multipliers", 8 * sizes.hidden));
    blueprint.blocks.push_back(
        mixed_block(sizes.hidden, convolved_attention(keys, shape), feeding));
  }
  return blueprint;
}

}  // namespace stagecraft
