// Families with recurrences or short convolutions beside attention, or instead of it.

#include <algorithm>
#include <cmath>

#include "profiles/error.hpp"
#include "profiles/importers/families/families.hpp"

namespace stagecraft {

/// Latent attention every fourth block, Kimi Delta Attention in the others; no positions.
Blueprint read_kimi_linear(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {.vocabulary = 163840,
                                        .hidden = 2304,
                                        .inner = 9216,
                                        .blocks = 27,
                                        .heads = 32,
                                        .head_width = 192,
                                        .positions = 1048576,
                                        .latent = true});
  Blueprint blueprint = start(keys, sizes, false);
  blueprint.own_head = true;
  keys.ignore({"qk_head_dim", "head_dim", "num_key_value_heads", "mla_use_nope", "moe_renormalize",
               "use_grouped_topk", "moe_router_activation_func"});
  const LatentShape attending{.hidden = sizes.hidden,
                              .heads = sizes.heads,
                              .query_rank = read_query_rank(keys, 0),
                              .key_value_rank = keys.count("kv_lora_rank", 512),
                              .rotary_width = keys.count("qk_rope_head_dim", 64),
                              .plain_width = keys.count("qk_nope_head_dim", 128),
                              .value_width = keys.count("v_head_dim", 128),
                              .bias = keys.flag("attention_bias", false)};
  KimiDeltaShape delta{.hidden = sizes.hidden,
                       .heads = keys.count("linear_num_heads", 32),
                       .width = keys.count("linear_head_dim", 128),
                       .kernel = keys.count("linear_conv_kernel_dim", 4)};
  std::vector<std::string> words;
  if (keys.has("linear_attn_config")) {
    Keys linear(keys.at("linear_attn_config"), true);
    delta.heads = linear.count("num_heads", delta.heads);
    delta.width = linear.count("head_dim", delta.width);
    delta.kernel = linear.count("short_conv_kernel_size", delta.kernel);
    words.assign(static_cast<std::size_t>(sizes.blocks), recurs);
    for (const std::int64_t block : linear.numbers("full_attn_layers")) {
      if (block < 1 || block > sizes.blocks)
        linear.fail("full_attn_layers", concat("there is no layer ", block));
      words[static_cast<std::size_t>(block - 1)] = attends;
    }
    linear.ignore({"kda_layers"});
    linear.refuse_unread("kimi_linear");
  }
  words = words_of_blocks(keys, "layer_types", sizes.blocks, {attends, recurs}, [&](int block) {
    if (!words.empty()) return words[static_cast<std::size_t>(block)];
    return block > 0 && block % 4 == 0 ? attends : recurs;
  });
  const std::int64_t first = keys.natural("first_k_dense_replace", 1);
  const std::vector<std::string> kinds =
      kinds_of_blocks(keys, sizes.blocks, [&](int block) { return block >= first; });
  MixtureShape mixing{.hidden = sizes.hidden,
                      .experts = keys.count("num_experts|num_local_experts|n_routed_experts", 256),
                      .active = keys.count("num_experts_per_token|num_experts_per_tok", 8),
                      .inner = keys.count("moe_intermediate_size", 1024)};
  mixing.shared_inner = keys.natural("num_shared_experts|n_shared_experts", 1) * mixing.inner;
  set_groups(keys, {}, mixing, blueprint.notes);
  if (keys.count("moe_layer_freq", 1) != 1)
    keys.fail("moe_layer_freq", "only 1 is known: experts in each block behind the dense ones");
  set_experts(keys, "num_experts_per_token|num_experts_per_tok", blueprint.numbers, mixing);
  const Steps dense = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  const Steps sparse = mixture(mixing);
  for (std::size_t block = 0; block < words.size(); ++block) {
    blueprint.blocks.push_back(mixed_block(
        sizes.hidden, words[block] == attends ? latent_attention(attending) : kimi_delta(delta),
        kinds[block] == "dense" ? dense : sparse));
  }
  return blueprint;
}

namespace {

/// Blocks of one norm and one mixer; `normed`: within it, too, without weights.
Blueprint read_mamba_family(Keys& keys, bool normed) {
  keys.need({"hidden_size", "num_hidden_layers", "vocab_size"});
  Sizes sizes;
  sizes.hidden = keys.count("hidden_size", 768);
  sizes.blocks = read_blocks(keys, "num_hidden_layers", 32);
  sizes.vocabulary = keys.count("vocab_size", 50280);
  sizes.positions = std::int64_t{1} << 20U;
  const std::int64_t rank = (sizes.hidden + 15) / 16;
  const bool automatic = !keys.has("time_step_rank") || keys.at("time_step_rank").is_string();
  MambaShape shape{.hidden = sizes.hidden,
                   .inner = keys.count("expand", 2) * sizes.hidden,
                   .state = keys.count("state_size", 16),
                   .rank = automatic ? rank : keys.count("time_step_rank", rank),
                   .kernel = keys.count("conv_kernel", 4),
                   .convolution_bias = keys.flag("use_conv_bias", true),
                   .bias = keys.flag("use_bias", false),
                   .normed = normed,
                   .norm_weights = NormWeights::none};
  shape.inner = keys.count("intermediate_size", shape.inner);
  sizes.inner = shape.inner;
  sizes.heads = sizes.key_value_heads = 1;
  sizes.head_width = 1;
  keys.ignore({"time_step_scale", "time_step_min", "time_step_max", "time_step_init_scheme",
               "time_step_floor", "use_mambapy", "use_associative_scan", "fused_add_norm",
               "rms_norm", "d_model", "d_inner", "n_layer", "ssm_cfg", "pad_vocab_size_multiple",
               "layer_types"});
  Blueprint blueprint = start(keys, sizes, true);
  Steps block{norm("norm", sizes.hidden)};
  add_steps(block, mamba(shape));
  blueprint.blocks.assign(static_cast<std::size_t>(sizes.blocks), block);
  return blueprint;
}

}  // namespace

Blueprint read_mamba(Keys& keys) {
  return read_mamba_family(keys, false);
}

Blueprint read_falcon_mamba(Keys& keys) {
  keys.ignore({"mixer_rms_eps"});
  return read_mamba_family(keys, true);
}

Blueprint read_mamba2(Keys& keys) {
  keys.need({"hidden_size", "num_hidden_layers", "vocab_size", "num_heads", "head_dim"});
  Sizes sizes;
  sizes.hidden = keys.count("hidden_size", 4096);
  sizes.blocks = read_blocks(keys, "num_hidden_layers", 64);
  sizes.vocabulary = keys.count("vocab_size", 32768);
  sizes.positions = std::int64_t{1} << 20U;
  sizes.heads = sizes.key_value_heads = keys.count("num_heads", 128);
  sizes.head_width = keys.count("head_dim", 64);
  const bool bias = keys.flag("use_bias", false);
  const Mamba2Shape shape{.hidden = sizes.hidden,
                          .inner = keys.count("expand", 2) * sizes.hidden,
                          .heads = sizes.heads,
                          .groups = keys.count("n_groups", 8),
                          .state = keys.count("state_size", 128),
                          .kernel = keys.count("conv_kernel", 4),
                          .convolution_bias = keys.flag("use_conv_bias", true),
                          .input_bias = bias,
                          .output_bias = bias};
  if (shape.inner != sizes.heads * sizes.head_width) {
    keys.fail("num_heads", concat(sizes.heads, " heads of ", sizes.head_width, " are not the ",
                                  shape.inner, " numbers of expand x hidden_size"));
  }
  sizes.inner = shape.inner;
  keys.ignore({"time_step_rank", "time_step_min", "time_step_max", "time_step_floor",
               "time_step_limit", "chunk_size", "rms_norm", "norm_before_gate",
               "time_step_init_scheme", "time_step_scale", "layer_types", "intermediate_size"});
  Blueprint blueprint = start(keys, sizes, false);
  Steps block{norm("norm", sizes.hidden)};
  add_steps(block, mamba2(shape));
  blueprint.blocks.assign(static_cast<std::size_t>(sizes.blocks), block);
  return blueprint;
}

namespace {

/// Under the names that Bamba, Granite and Falcon-H1 share.
Mamba2Shape read_mixer(Keys& keys, std::int64_t hidden, std::int64_t inner) {
  Mamba2Shape shape{.hidden = hidden,
                    .inner = inner,
                    .heads = keys.count("mamba_n_heads", 128),
                    .groups = keys.count("mamba_n_groups", 1),
                    .state = keys.count("mamba_d_state", 256),
                    .kernel = keys.count("mamba_d_conv", 4),
                    .convolution_bias = keys.flag("mamba_conv_bias", true)};
  shape.input_bias = shape.output_bias = keys.flag("mamba_proj_bias", false);
  keys.ignore({"mamba_chunk_size", "time_step_limit", "time_step_min", "time_step_max",
               "time_step_floor", "mamba_d_head", "mamba_expand", "num_logits_to_keep"});
  if (keys.has("mamba_d_head") && keys.at("mamba_d_head").is_number() &&
      keys.count("mamba_d_head", 1) * shape.heads != inner) {
    keys.fail("mamba_d_head", concat(shape.heads, " heads of that width are not the ", inner,
                                     " numbers of the mixer"));
  }
  return shape;
}

}  // namespace

Blueprint read_bamba(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {128000, 4096, 14336, 32, 32, 8, 0, 262144});
  Blueprint blueprint = start(keys, sizes, false);
  const Mamba2Shape mixer =
      read_mixer(keys, sizes.hidden, keys.count("mamba_expand", 2) * sizes.hidden);
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  shape.rotary_width = rotary_width(keys, sizes.head_width, 0.5);
  const bool bias = keys.flag("mlp_bias", false);
  const Steps feeding = feed_forward(
      {.hidden = sizes.hidden, .inner = sizes.inner, .up_bias = bias, .down_bias = bias});
  const std::vector<std::int64_t> attending = keys.numbers("attn_layer_indices");
  const std::vector<std::string> words =
      words_of_blocks(keys, "layers_block_type", sizes.blocks, {attends, recurs}, [&](int block) {
        return std::find(attending.begin(), attending.end(), block) != attending.end() ? attends
                                                                                       : recurs;
      });
  keys.ignore({"attn_rotary_emb", "layer_types"});
  for (const std::string& word : words) {
    blueprint.blocks.push_back(
        mixed_block(sizes.hidden, word == attends ? attention(shape) : mamba2(mixer), feeding));
  }
  return blueprint;
}

/// Attention and a mixer side by side in each block.
Blueprint read_falcon_h1(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {128000, 4096, 14336, 32, 32, 8, 0, 8192});
  Blueprint blueprint = start(keys, sizes, false);
  const std::int64_t expanded = keys.count("mamba_expand", 2) * sizes.hidden;
  const bool is_null = keys.json().contains("mamba_d_ssm") && !keys.has("mamba_d_ssm");
  const std::int64_t inner = is_null ? expanded : keys.count("mamba_d_ssm", 1024);
  Mamba2Shape mixer = read_mixer(keys, sizes.hidden, inner);
  mixer.output_bias = keys.flag("projectors_bias", false);
  mixer.normed = keys.flag("mamba_rms_norm", false);
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  shape.rotary_width = rotary_width(keys, sizes.head_width);
  const bool bias = keys.flag("mlp_bias", false);
  keys.ignore({"mamba_norm_before_gate", "mlp_multipliers", "ssm_multipliers", "time_step_rank",
               "mlp_expansion_factor", "mamba_use_mlp", "attn_layer_indices", "layers_block_type",
               "layer_types"});
  Steps mixers = attention(shape);
  add_steps(mixers, mamba2(mixer));
  blueprint.blocks.assign(
      static_cast<std::size_t>(sizes.blocks),
      mixed_block(
          sizes.hidden, mixers,
          feed_forward(
              {.hidden = sizes.hidden, .inner = sizes.inner, .up_bias = bias, .down_bias = bias})));
  return blueprint;
}

namespace {

/// "M-*E" as words.
std::vector<std::string> words_of_pattern(Keys& keys) {
  std::vector<std::string> words;
  for (const char letter : keys.word("hybrid_override_pattern", "")) {
    switch (letter) {
      case 'M': words.push_back(recurs); break;
      case 'E': words.emplace_back("moe"); break;
      case '*': words.push_back(attends); break;
      case '-': words.emplace_back("mlp"); break;
      default:
        keys.fail("hybrid_override_pattern",
                  concat("expected the letters M, E, * and -, found '", letter, "'"));
    }
  }
  return words;
}

}  // namespace

/// Each block has one norm and one of mixer, attention, feed-forward and experts.
Blueprint read_nemotron_h(Keys& keys) {
  std::vector<std::string> words = words_of_pattern(keys);
  if (words.empty()) words = {recurs, "moe", attends, "mlp"};
  const std::string_view words_key =
      keys.has("layers_block_type") ? "layers_block_type" : "layer_types";
  const int blocks =
      static_cast<int>(keys.has(words_key) ? keys.words(words_key).size() : words.size());
  words = words_of_blocks(keys, words_key, blocks, {recurs, "moe", attends, "mlp"},
                          [&](int block) { return words[static_cast<std::size_t>(block)]; });
  Sizes sizes;
  sizes.hidden = keys.count("hidden_size", 4096);
  sizes.blocks = blocks;
  sizes.vocabulary = keys.count("vocab_size", 131072);
  sizes.heads = keys.count("num_attention_heads", 32);
  sizes.key_value_heads = keys.count("num_key_value_heads", 8);
  sizes.head_width = keys.count("head_dim|attention_head_dim", 128);
  sizes.inner = keys.count("intermediate_size", 21504);
  sizes.positions = keys.count("max_position_embeddings", 4096);
  if (sizes.heads % sizes.key_value_heads != 0) {
    keys.fail("num_key_value_heads",
              concat(sizes.key_value_heads, " key-value heads do not divide the ", sizes.heads,
                     " attention heads"));
  }
  Blueprint blueprint = start(keys, sizes, false);
  blueprint.own_head = true;
  const std::int64_t heads = keys.count("mamba_num_heads", 128);
  const bool projections_bias = keys.flag("use_bias", false);
  const Mamba2Shape mixer{.hidden = sizes.hidden,
                          .inner = heads * keys.count("mamba_head_dim", 64),
                          .heads = heads,
                          .groups = keys.count("n_groups|mamba_n_groups", 8),
                          .state = keys.count("ssm_state_size", 128),
                          .kernel = keys.count("conv_kernel|mamba_d_conv", 4),
                          .convolution_bias = keys.flag("use_conv_bias|mamba_conv_bias", true),
                          .input_bias = projections_bias,
                          .output_bias = projections_bias};
  const bool bias = keys.flag("mlp_bias", false);
  const std::int64_t shared = keys.natural("moe_shared_expert_intermediate_size", 7688);
  MixtureShape mixing{.hidden = sizes.hidden,
                      .experts = keys.count("n_routed_experts|num_local_experts", 8),
                      .active = keys.count("num_experts_per_tok", 2),
                      .inner = keys.count("moe_intermediate_size", 7688),
                      .gated = false,
                      .latent = keys.natural("moe_latent_size", 0),
                      .latent_bias = bias,
                      .shared_inner = shared > 0 ? shared : sizes.inner,
                      .shared_bias = bias};
  set_groups(keys, {}, mixing, blueprint.notes);
  keys.ignore({"attention_bias",
               "mamba_proj_bias",
               "num_hidden_layers",
               "mlp_hidden_act",
               "mamba_hidden_act",
               "expand",
               "mamba_expand",
               "time_step_min",
               "time_step_max",
               "time_step_limit",
               "time_step_floor",
               "time_step_rank",
               "chunk_size",
               "mamba_chunk_size",
               "mamba_ssm_cache_dtype",
               "n_shared_experts",
               "moe_shared_expert_overlap",
               "mtp_layers_block_type",
               "mtp_hybrid_override_pattern",
               "num_query_groups",
               "mamba_dt_min",
               "mamba_dt_max",
               "mamba_dt_limit",
               "mamba_dt_init_floor",
               "hybrid_override_pattern",
               "sliding_window"});
  const bool mixes = std::find(words.begin(), words.end(), "moe") != words.end();
  if (mixes && shared == 0) {
    blueprint.notes.push_back(
        concat("moe_shared_expert_intermediate_size is 0, but the class in transformers builds a "
               "shared expert as wide as intermediate_size = ",
               sizes.inner, ", which is counted"));
  }
  if (mixes) set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  for (const std::string& word : words) {
    Steps block{norm("norm", sizes.hidden)};
    if (word == recurs) add_steps(block, mamba2(mixer));
    if (word == attends) add_steps(block, attention(grouped(sizes, false)));
    if (word == "moe") add_steps(block, mixture(mixing));
    if (word == "mlp") {
      add_steps(block, feed_forward({.hidden = sizes.hidden,
                                     .inner = sizes.inner,
                                     .gated = false,
                                     .up_bias = bias,
                                     .down_bias = bias}));
    }
    blueprint.blocks.push_back(block);
  }
  return blueprint;
}

Blueprint read_granitemoehybrid(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {32000, 4096, 11008, 32, 32, 0, 0, 2048});
  Blueprint blueprint = start(keys, sizes, false);
  const Mamba2Shape mixer =
      read_mixer(keys, sizes.hidden, keys.count("mamba_expand", 2) * sizes.hidden);
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  if (keys.word("position_embedding_type", "") == "rope") shape.rotary_width = sizes.head_width;
  const MixtureShape mixing{.hidden = sizes.hidden,
                            .experts = keys.natural("num_local_experts|num_experts", 8),
                            .active = keys.natural("num_experts_per_tok", 2),
                            .inner = sizes.inner};
  Steps feeding;
  if (mixing.experts > 0) {
    feeding = mixture(mixing);
    set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  }
  add_steps(feeding, feed_forward({.hidden = sizes.hidden,
                                   .inner = keys.count("shared_intermediate_size", 1024)}));
  keys.ignore({"logits_scaling", "normalization_function", "init_method"});
  for (const std::string& word :
       words_of_blocks(keys, keys.has("layer_types") ? "layer_types" : "layers_block_type",
                       sizes.blocks, {attends, recurs}, [](int) { return recurs; })) {
    blueprint.blocks.push_back(
        mixed_block(sizes.hidden, word == attends ? attention(shape) : mamba2(mixer), feeding));
  }
  return blueprint;
}

namespace {

/// Attention or a short convolution, by block.
std::vector<Steps> read_lfm2_mixers(Keys& keys, const Sizes& sizes) {
  GroupedAttention shape = grouped(sizes, false);
  shape.norms = QueryKeyNorm::shared;
  shape.rotary_width = sizes.head_width;
  const Steps convolving =
      short_convolution(sizes.hidden, keys.count("conv_L_cache", 3), keys.flag("conv_bias", false));
  const bool named = keys.has("full_attn_idxs");
  const std::vector<std::int64_t> attending = keys.numbers("full_attn_idxs");
  const std::vector<std::string> words =
      words_of_blocks(keys, "layer_types", sizes.blocks, {attends, "conv"}, [&](int block) {
        const bool found = std::find(attending.begin(), attending.end(), block) != attending.end();
        return !named || found ? attends : "conv";
      });
  keys.ignore({"conv_dim", "conv_dim_out", "conv_use_xavier_init", "block_dim",
               "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale", "block_use_swiglu",
               "block_use_xavier_init", "num_heads", "use_pos_enc", "theta"});
  std::vector<Steps> mixers;
  for (const std::string& word : words)
    mixers.push_back(word == attends ? attention(shape) : convolving);
  return mixers;
}

/// `tie_word_embeddings` or the older `tie_embedding`.
Blueprint start_lfm2(Keys& keys, const Sizes& sizes) {
  return start(keys, sizes, keys.flag("tie_embedding", true));
}

}  // namespace

Blueprint read_lfm2(Keys& keys) {
  Sizes sizes = read_sizes(keys, {65536, 2560, 12288, 32, 32, 8, 0, 128000});
  sizes.inner = keys.count("block_ff_dim", sizes.inner);
  const double factor = keys.number("block_ffn_dim_multiplier", 1.0);
  const std::int64_t multiple = keys.count("block_multiple_of", 256);
  if (keys.flag("block_auto_adjust_ff_dim", true)) {
    const std::int64_t two_thirds = 2 * sizes.inner / 3;
    const auto scaled = static_cast<std::int64_t>(factor * static_cast<double>(two_thirds));
    sizes.inner = multiple * ((scaled + multiple - 1) / multiple);
  }
  Blueprint blueprint = start_lfm2(keys, sizes);
  for (const Steps& mixer : read_lfm2_mixers(keys, sizes)) {
    blueprint.blocks.push_back(mixed_block(
        sizes.hidden, mixer, feed_forward({.hidden = sizes.hidden, .inner = sizes.inner})));
  }
  return blueprint;
}

Blueprint read_lfm2_moe(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {65536, 2048, 7168, 32, 32, 8, 0, 128000});
  Blueprint blueprint = start_lfm2(keys, sizes);
  const MixtureShape mixing{.hidden = sizes.hidden,
                            .experts = keys.count("num_experts|num_local_experts", 32),
                            .active = keys.count("num_experts_per_tok", 4),
                            .inner = keys.count("moe_intermediate_size", 1792)};
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  const std::int64_t dense = keys.natural("num_dense_layers", 2);
  keys.ignore({"use_expert_bias"});
  const std::vector<Steps> mixers = read_lfm2_mixers(keys, sizes);
  for (std::size_t block = 0; block < mixers.size(); ++block) {
    const bool is_dense = std::cmp_less(block, dense);
    blueprint.blocks.push_back(mixed_block(
        sizes.hidden, mixers[block],
        is_dense ? feed_forward({.hidden = sizes.hidden, .inner = sizes.inner}) : mixture(mixing)));
  }
  return blueprint;
}

/// Lightning attention between blocks with attention over all tokens.
Blueprint read_minimax(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {32000, 4096, 14336, 32, 32, 8, 0, 131072});
  Blueprint blueprint = start(keys, sizes, false);
  GroupedAttention shape = grouped(sizes, false);
  shape.rotary_width = rotary_width(keys, sizes.head_width);
  const MixtureShape mixing{.hidden = sizes.hidden,
                            .experts = keys.count("num_local_experts|num_experts", 8),
                            .active = keys.count("num_experts_per_tok", 2),
                            .inner = sizes.inner};
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  const std::int64_t all = sizes.heads * sizes.head_width;
  const Steps lightning{divided("query key value", 3 * all, sizes.hidden, false, sizes.heads),
                        {.kind = StepKind::recurrence,
                         .name = "lightning attention",
                         .outputs = sizes.head_width,
                         .inputs = sizes.head_width,
                         .heads = sizes.heads},
                        {.kind = StepKind::norm,
                         .name = "mixer norm",
                         .outputs = all,
                         .inputs = all,
                         .split = Split::outputs},
                        beside(divided("mixer gate", all, sizes.hidden, false, sizes.heads)),
                        summed("mixer output", sizes.hidden, all)};
  keys.ignore({"block_size", "full_attn_alpha_factor", "full_attn_beta_factor",
               "linear_attn_alpha_factor", "linear_attn_beta_factor", "mlp_alpha_factor",
               "mlp_beta_factor"});
  for (const std::string& word :
       words_of_blocks(keys, "layer_types", sizes.blocks, {attends, recurs},
                       [](int block) { return (block + 1) % 2 != 0 ? attends : recurs; })) {
    blueprint.blocks.push_back(
        mixed_block(sizes.hidden, word == attends ? attention(shape) : lightning, mixture(mixing)));
  }
  return blueprint;
}

}  // namespace stagecraft
