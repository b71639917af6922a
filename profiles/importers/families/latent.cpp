// Families with latent attention: DeepSeek, those of its shape, and LongCat.

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/importers/families/families.hpp"

namespace stagecraft {

namespace {

/// Defaults of the family's class.
struct LatentRow {
  Defaults sizes;
  std::int64_t query_rank = 1536, key_value_rank = 512, rotary = 64, plain = 128, value = 128;
  std::int64_t experts = 256, active = 8, inner = 2048, shared = 1, dense = 0;
  ExpertGroups groups;
  Indexer indexer;
  bool has_types = false;      ///< "mlp_layer_types" say which blocks are dense
  bool norms_experts = false;  ///< a norm follows the experts
  bool sinks = false;
  bool gated = false;               ///< as of `LatentShape`
  bool own_gate = false;            ///< as of `LatentShape`
  std::int64_t streams = 0;         ///< of hyper-connections; 0: none
  std::int64_t norm_gate = 0;       ///< rank of what gates norms; 0: nothing does
  std::int64_t indexers_every = 0;  ///< all but each n-th block take an earlier one's choice
  std::string_view rotary_key = "qk_rope_head_dim";
  std::string_view feed_forward_bias_key;
  bool is_plain = false;
  bool greedy = false;  ///< "topk_method" is by default
  /// The class's own default of the experts that a token passes is none, and files may lack them.
  bool assumes_active = false;
};

}  // namespace

std::int64_t read_query_rank(Keys& keys, std::int64_t otherwise) {
  if (keys.is_null("q_lora_rank")) return 0;
  if (keys.integer("q_lora_rank", 1) == 0) {
    keys.fail(
        "q_lora_rank",
        "expected an integer of at least 1, or null for queries without a latent, found 0: of "
        "rank 0 all queries would be alike");
  }
  return keys.count("q_lora_rank", otherwise);
}

namespace {

LatentShape read_latent_shape(Keys& keys, const LatentRow& row, const Sizes& sizes) {
  keys.ignore({"qk_head_dim", "head_dim", "num_key_value_heads"});
  return {.hidden = sizes.hidden,
          .heads = sizes.heads,
          .query_rank = read_query_rank(keys, row.query_rank),
          .key_value_rank = keys.count("kv_lora_rank", row.key_value_rank),
          .rotary_width = keys.count(row.rotary_key, row.rotary),
          .plain_width = keys.count("qk_nope_head_dim", row.plain),
          .value_width = keys.count("v_head_dim", row.value),
          .bias = keys.flag("attention_bias", false),
          .indexer = row.indexer,
          .sinks = row.sinks,
          .gated = row.gated,
          .own_gate = row.own_gate};
}

MixtureShape read_latent_mixture(Keys& keys, const LatentRow& row, std::int64_t hidden,
                                 std::vector<std::string>& notes) {
  MixtureShape shape{
      .hidden = hidden,
      .experts = keys.count("n_routed_experts|num_local_experts|num_experts", row.experts),
      .active = keys.count("num_experts_per_tok", row.active),
      .inner = keys.count("moe_intermediate_size", row.inner)};
  shape.shared_inner = keys.natural("n_shared_experts", row.shared) * shape.inner;
  if (!row.feed_forward_bias_key.empty())
    shape.shared_bias = keys.flag(row.feed_forward_bias_key, false);
  // DeepSeek-V2's class has another choice by default, without groups.
  const bool chooses_any = row.greedy && keys.word("topk_method", "greedy") == "greedy";
  if (!chooses_any) set_groups(keys, row.groups, shape, notes);
  return shape;
}

/// Of the executor's and the estimates' own form.
void set_latent_numbers(Blueprint& blueprint, const LatentShape& shape) {
  Transformer& numbers = blueprint.numbers;
  numbers.latent = LatentAttention{.query_rank = shape.query_rank,
                                   .key_value_rank = shape.key_value_rank,
                                   .rotary_width = shape.rotary_width,
                                   .plain_width = shape.plain_width,
                                   .value_width = shape.value_width};
  numbers.head_width = shape.rotary_width + shape.plain_width;
  numbers.key_value_heads = numbers.heads;
  blueprint.is_plain = true;
}

Steps latent_block(const LatentShape& attending, const Steps& feeding) {
  Steps steps{norm("first norm", attending.hidden)};
  add_steps(steps, latent_attention(attending));
  steps.push_back(norm("second norm", attending.hidden));
  add_steps(steps, feeding);
  return steps;
}

/// "FSSF…", a letter for each block.
std::vector<std::string> indexers_of_letters(Keys& keys, int blocks) {
  const std::string letters = keys.word("index_topk_pattern", "");
  if (std::cmp_not_equal(letters.size(), blocks)) {
    keys.fail("index_topk_pattern", concat("expected a letter for each of the ", blocks,
                                           " layers, found ", letters.size()));
  }
  std::vector<std::string> words;
  for (const char letter : letters) {
    if (letter != 'F' && letter != 'S')
      keys.fail("index_topk_pattern", concat("\"", letter, "\" is not known here; known: F, S"));
    words.emplace_back(letter == 'F' ? "full" : "shared");
  }
  return words;
}

}  // namespace

std::vector<std::string> indexers_of_blocks(Keys& keys, int blocks) {
  const std::int64_t every = std::max<std::int64_t>(keys.natural("index_topk_freq", 1), 1);
  const std::int64_t offset = keys.natural("index_skip_topk_offset", 2);
  const std::vector<std::string> known{"full", "shared"};
  const auto regular = [&](int block) {
    return std::max<std::int64_t>(block - offset + 1, 0) % every == 0 ? "full" : "shared";
  };
  const bool has_pattern = keys.has("index_topk_pattern");
  if (keys.has("indexer_types") || !has_pattern)
    return words_of_blocks(keys, "indexer_types", blocks, known, regular);
  if (keys.at("index_topk_pattern").is_string()) return indexers_of_letters(keys, blocks);
  return words_of_blocks(keys, "index_topk_pattern", blocks, known, regular);
}

namespace {

/// What stands around the halves of a block.
struct LatentEdges {
  std::int64_t streams = 0;    ///< of hyper-connections; 0: none
  std::int64_t norm_gate = 0;  ///< rank of what gates norms; 0: nothing does
};

Steps gated_norm(std::string_view name, std::int64_t hidden, std::int64_t rank) {
  Steps steps{norm(name, hidden)};
  if (rank > 0) {
    steps.push_back(product("norm gate", rank, hidden));
    steps.push_back(product("norm gate", hidden, rank));
  }
  return steps;
}

Steps edged_block(const LatentEdges& edges, const LatentShape& attending, const Steps& feeding,
                  bool is_dense) {
  const std::int64_t hidden = attending.hidden;
  const Steps before =
      edges.streams > 0 ? hyper_connections(hidden, edges.streams, false) : Steps{};
  Steps steps = before;
  add_steps(steps, gated_norm("first norm", hidden, edges.norm_gate));
  add_steps(steps, latent_attention(attending));
  add_steps(steps, before);
  add_steps(steps, gated_norm("second norm", hidden, is_dense ? 0 : edges.norm_gate));
  add_steps(steps, feeding);
  return steps;
}

Blueprint read_latent_family(Keys& keys, const LatentRow& row) {
  std::vector<std::string> needed{"hidden_size",
                                  "num_hidden_layers",
                                  "num_attention_heads",
                                  "intermediate_size",
                                  "vocab_size",
                                  "kv_lora_rank",
                                  std::string(row.rotary_key),
                                  "qk_nope_head_dim",
                                  "v_head_dim",
                                  "moe_intermediate_size",
                                  "n_routed_experts|num_local_experts|num_experts"};
  if (!row.assumes_active) needed.emplace_back("num_experts_per_tok");
  keys.need(needed);
  Defaults defaults = row.sizes;
  defaults.head_width = row.rotary + row.plain;
  defaults.latent = true;
  const Sizes sizes = read_sizes(keys, defaults);
  Blueprint blueprint = start(keys, sizes, false);
  LatentShape attending = read_latent_shape(keys, row, sizes);
  const MixtureShape mixing = read_latent_mixture(keys, row, sizes.hidden, blueprint.notes);
  if (row.assumes_active && !keys.has("num_experts_per_tok")) {
    blueprint.notes.push_back(concat("num_experts_per_tok is missing: ", mixing.active,
                                     " are assumed, as DeepSeek's own models have; parameters do "
                                     "not depend on them, work does"));
  }
  if (keys.count("moe_layer_freq", 1) != 1)
    keys.fail("moe_layer_freq", "only 1 is known: experts in each block behind the dense ones");
  const std::int64_t dense_blocks = keys.natural("first_k_dense_replace", row.dense);
  const auto kind_of = [&](int block) { return block < dense_blocks ? "dense" : "sparse"; };
  std::vector<std::string> kinds;
  if (row.has_types) {
    kinds = words_of_blocks(keys, "mlp_layer_types", sizes.blocks, {"dense", "sparse"}, kind_of);
  } else {
    for (int block = 0; block < sizes.blocks; ++block) kinds.emplace_back(kind_of(block));
  }
  const bool bias = mixing.shared_bias;
  const Steps dense = feed_forward(
      {.hidden = sizes.hidden, .inner = sizes.inner, .up_bias = bias, .down_bias = bias});
  Steps sparse = mixture(mixing);
  if (row.norms_experts) sparse.push_back(norm("output norm", sizes.hidden));
  std::vector<std::string> indexers;
  if (row.indexer.heads > 0) {
    attending.indexer = {.heads = keys.count("index_n_heads", row.indexer.heads),
                         .width = keys.count("index_head_dim", row.indexer.width),
                         .keys = keys.count("index_topk", row.indexer.keys)};
    words_of_blocks(keys, "layer_types", sizes.blocks, {"indexed_attention"},
                    [](int) { return "indexed_attention"; });
    if (row.indexers_every > 0) {
      indexers =
          words_of_blocks(keys, "indexer_types", sizes.blocks, {"full", "shared"}, [&](int block) {
            return std::max(block - 1, 0) % row.indexers_every == 0 ? "full" : "shared";
          });
    } else {
      indexers = indexers_of_blocks(keys, sizes.blocks);
    }
  }
  LatentEdges edges;
  if (row.streams > 0) edges.streams = keys.count("hc_mult", row.streams);
  if (row.norm_gate > 0) edges.norm_gate = keys.count("gated_norm_rank", row.norm_gate);
  for (std::size_t block = 0; block < kinds.size(); ++block) {
    if (!indexers.empty()) attending.indexer.computes = indexers[block] == "full";
    const bool is_dense = kinds[block] == "dense";
    blueprint.blocks.push_back(edged_block(edges, attending, is_dense ? dense : sparse, is_dense));
  }
  if (edges.streams > 0) {
    blueprint.numbers.streams = edges.streams;
    const Steps joining = joined_streams(sizes.hidden, edges.streams);
    blueprint.last.insert(blueprint.last.begin(), joining.begin(), joining.end());
  }
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  blueprint.numbers.experts->dense_blocks =
      std::find(kinds.begin(), kinds.end(), "sparse") - kinds.begin();
  blueprint.prediction_modules = keys.natural("num_nextn_predict_layers|num_mtp_layers", 0);
  if (row.is_plain && !attending.bias && !bias) set_latent_numbers(blueprint, attending);
  return blueprint;
}

/// All blocks alike and dense.
Blueprint read_dense_latent_family(Keys& keys, const LatentRow& row) {
  keys.need({"intermediate_size", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim"});
  Defaults defaults = row.sizes;
  defaults.head_width = row.rotary + row.plain;
  defaults.latent = true;
  const Sizes sizes = read_sizes(keys, defaults);
  Blueprint blueprint = start(keys, sizes, defaults.tied);
  const bool bias =
      !row.feed_forward_bias_key.empty() && keys.flag(row.feed_forward_bias_key, false);
  const Steps dense = feed_forward(
      {.hidden = sizes.hidden, .inner = sizes.inner, .up_bias = bias, .down_bias = bias});
  blueprint.blocks.assign(static_cast<std::size_t>(sizes.blocks),
                          latent_block(read_latent_shape(keys, row, sizes), dense));
  return blueprint;
}

}  // namespace

Blueprint read_deepseek_v2(Keys& keys) {
  return read_latent_family(keys, {.sizes = {102400, 4096, 11008, 32, 32, 0, 0, 2048},
                                   .experts = 64,
                                   .active = 6,
                                   .inner = 1407,
                                   .shared = 2,
                                   .feed_forward_bias_key = "mlp_bias",
                                   .is_plain = true,
                                   .greedy = true,
                                   .assumes_active = true});
}

Blueprint read_deepseek_v3(Keys& keys) {
  Blueprint blueprint =
      read_latent_family(keys, {.sizes = {129280, 7168, 18432, 61, 128, 128, 0, 4096},
                                .dense = 3,
                                .groups = {.count = 8, .active = 4},
                                .is_plain = true});
  blueprint.numbers.experts->score_bias = true;
  return blueprint;
}

Blueprint read_deepseek_v32(Keys& keys) {
  keys.ignore({"mlp_bias"});
  return read_latent_family(keys, {.sizes = {129280, 7168, 18432, 61, 128, 128, 0, 163840},
                                   .dense = 3,
                                   .groups = {.count = 8, .active = 4},
                                   .indexer = {.heads = 64, .width = 128, .keys = 2048},
                                   .has_types = true});
}

Blueprint read_mistral4(Keys& keys) {
  return read_latent_family(keys, {.sizes = {131072, 4096, 12288, 36, 32, 32, 0, 1048576},
                                   .query_rank = 1024,
                                   .key_value_rank = 256,
                                   .plain = 64,
                                   .experts = 128,
                                   .active = 4});
}

Blueprint read_axk1(Keys& keys) {
  return read_latent_family(keys, {.sizes = {163840, 7168, 18432, 61, 64, 64, 0, 32768},
                                   .experts = 192,
                                   .dense = 1,
                                   .groups = {.count = 8, .active = 4},
                                   .has_types = true,
                                   .norms_experts = true});
}

/// Queries' latent gives a gate, too, and norms have gates of low rank.
Blueprint read_axk2(Keys& keys) {
  return read_latent_family(keys, {.sizes = {163840, 2048, 5120, 48, 32, 32, 0, 131072},
                                   .query_rank = 384,
                                   .key_value_rank = 128,
                                   .rotary = 32,
                                   .plain = 64,
                                   .value = 64,
                                   .experts = 128,
                                   .inner = 512,
                                   .dense = 1,
                                   .indexer = {.heads = 16, .width = 128, .keys = 2048},
                                   .has_types = true,
                                   .gated = true,
                                   .norm_gate = 16});
}

/// Streams side by side; most blocks look at the keys that an earlier one chose.
Blueprint read_hy_v4(Keys& keys) {
  keys.ignore({"hc_magnitude", "hc_eps", "learnable_sink_init", "swiglu_limit"});
  return read_latent_family(keys, {.sizes = {120832, 2816, 6912, 34, 32, 32, 0, 262144},
                                   .plain = 192,
                                   .value = 256,
                                   .inner = 768,
                                   .dense = 1,
                                   .indexer = {.heads = 16, .width = 128, .keys = 2048},
                                   .has_types = true,
                                   .sinks = true,
                                   .own_gate = true,
                                   .streams = 4,
                                   .indexers_every = 4});
}

Blueprint read_youtu(Keys& keys) {
  return read_dense_latent_family(keys,
                                  {.sizes = {128256, 2048, 6144, 32, 16, 16, 0, 131072, true}});
}

/// Values are by default as wide as heads that divide the hidden width.
Blueprint read_minicpm3(Keys& keys) {
  keys.ignore({"scale_emb", "scale_depth", "dim_model_base"});
  LatentRow row{.sizes = {73448, 2560, 6400, 62, 40, 40, 0, 32768, true},
                .query_rank = 768,
                .key_value_rank = 256,
                .rotary = 32,
                .plain = 64,
                .feed_forward_bias_key = "mlp_bias"};
  const std::int64_t heads = keys.count("num_attention_heads", row.sizes.heads);
  row.value = std::max<std::int64_t>(keys.count("hidden_size", row.sizes.hidden) / heads, 1);
  return read_dense_latent_family(keys, row);
}

Blueprint read_glm4_moe_lite(Keys& keys) {
  return read_latent_family(keys, {.sizes = {154880, 2048, 10240, 47, 20, 20, 0, 202752},
                                   .query_rank = 768,
                                   .plain = 192,
                                   .value = 256,
                                   .experts = 64,
                                   .active = 4,
                                   .inner = 1536,
                                   .dense = 1,
                                   .has_types = true,
                                   .rotary_key = "qk_rope_head_dim|head_dim"});
}

Blueprint read_glm_moe_dsa(Keys& keys) {
  keys.ignore({"mlp_bias", "indexer_rope_interleave", "index_share_for_mtp_iteration"});
  return read_latent_family(keys, {.sizes = {154880, 6144, 12288, 78, 64, 64, 0, 202752},
                                   .query_rank = 2048,
                                   .plain = 192,
                                   .value = 256,
                                   .dense = 3,
                                   .indexer = {.heads = 32, .width = 128, .keys = 2048},
                                   .has_types = true});
}

/// Each layer is two of latent attention and dense feed-forward, beside one of experts, some of
/// which compute nothing.
Blueprint read_longcat_flash(Keys& keys) {
  const LatentRow row{.sizes = {131072, 6144, 12288, 28, 64, 0, 192, 131072},
                      .experts = 512,
                      .active = 12,
                      .inner = 2048};
  keys.need({"num_layers", "hidden_size", "num_attention_heads", "vocab_size"});
  Sizes sizes;
  sizes.hidden = keys.count("hidden_size", row.sizes.hidden);
  sizes.heads = sizes.key_value_heads = keys.count("num_attention_heads", row.sizes.heads);
  sizes.head_width = row.sizes.head_width;
  sizes.vocabulary = keys.count("vocab_size", row.sizes.vocabulary);
  sizes.positions = keys.count("max_position_embeddings", row.sizes.positions);
  sizes.inner = keys.count("ffn_hidden_size|intermediate_size", row.sizes.inner);
  sizes.blocks = read_blocks(keys, "num_layers", row.sizes.blocks);
  keys.ignore({"num_hidden_layers", "mla_scale_q_lora", "mla_scale_kv_lora", "attention_method",
               "zero_expert_type"});
  Blueprint blueprint = start(keys, sizes, false);
  const LatentShape attending = read_latent_shape(keys, row, sizes);
  const std::int64_t width = attending.plain_width + attending.rotary_width;
  if (keys.count("qk_head_dim", width) != width) {
    keys.fail("qk_head_dim", concat("expected qk_nope_head_dim + qk_rope_head_dim = ", width,
                                    ", found ", keys.count("qk_head_dim", width)));
  }
  const MixtureShape mixing{
      .hidden = sizes.hidden,
      .experts = keys.count("n_routed_experts|num_local_experts", row.experts),
      .active = keys.count("moe_topk|num_experts_per_tok", row.active),
      .inner = keys.count("expert_ffn_hidden_size|moe_intermediate_size", row.inner),
      .router_bias = keys.flag("router_bias", false),
      .idle_experts = keys.natural("zero_expert_num", 256),
      .stores_idle = true};
  const Steps dense = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  Steps block{norm("first norm", sizes.hidden)};
  add_steps(block, latent_attention(attending));
  block.push_back(norm("second norm", sizes.hidden));
  add_steps(block, mixture(mixing));
  add_steps(block, dense);
  add_steps(block, latent_block(attending, dense));
  blueprint.blocks.assign(static_cast<std::size_t>(sizes.blocks), block);
  set_experts(keys, "moe_topk|num_experts_per_tok", blueprint.numbers, mixing);
  return blueprint;
}

}  // namespace stagecraft
