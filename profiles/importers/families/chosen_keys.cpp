// Families whose layers take turns in what they see: Llama 4, Command A+, Laguna, MiniMax-M3,
// MiMo-V2 and DeepSeek-V4.

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/importers/families/families.hpp"

namespace stagecraft {

/// Chunks in blocks with positions, all tokens in those without.
Blueprint read_llama4(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {202048, 5120, 8192, 48, 40, 8, 128, 131072});
  Blueprint blueprint = start(keys, sizes, false);
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  const std::int64_t chunk = keys.natural("attention_chunk_size", 8192);
  const std::int64_t interval = keys.count("no_rope_layer_interval|nope_layer_interval", 4);
  std::vector<std::int64_t> turns = keys.numbers("no_rope_layers");
  if (turns.empty()) {
    for (int block = 0; block < sizes.blocks; ++block) turns.push_back((block + 1) % interval != 0);
  }
  if (std::cmp_not_equal(turns.size(), sizes.blocks)) {
    keys.fail("no_rope_layers", concat("expected a number for each of the ", sizes.blocks,
                                       " layers, found ", turns.size()));
  }
  const std::vector<std::string> words = words_of_blocks(
      keys, "layer_types", sizes.blocks, {"chunked_attention", "full_attention"}, [&](int block) {
        return turns[static_cast<std::size_t>(block)] != 0 ? "chunked_attention" : "full_attention";
      });
  const std::int64_t step = keys.count("interleave_moe_layer_step", 1);
  std::vector<bool> sparse(words.size());
  for (std::size_t block = 0; block < sparse.size(); ++block) {
    sparse[block] = (static_cast<std::int64_t>(block) + 1) % step == 0;
  }
  if (keys.has("moe_layers")) {
    std::fill(sparse.begin(), sparse.end(), false);
    for (const std::int64_t block : keys.numbers("moe_layers")) {
      if (block < 0 || block >= sizes.blocks)
        keys.fail("moe_layers", concat("there is no layer ", block));
      sparse[static_cast<std::size_t>(block)] = true;
    }
  }
  const MixtureShape mixing{.hidden = sizes.hidden,
                            .experts = keys.count("num_local_experts|num_experts", 16),
                            .active = keys.count("num_experts_per_tok", 1),
                            .inner = sizes.inner,
                            .shared_inner = sizes.inner};
  if (std::find(sparse.begin(), sparse.end(), true) != sparse.end())
    set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  const Steps dense =
      feed_forward({.hidden = sizes.hidden, .inner = keys.count("intermediate_size_mlp", 16384)});
  keys.ignore({"use_qk_norm", "attn_temperature_tuning", "floor_scale", "attn_scale",
               "for_llm_compressor"});
  for (std::size_t block = 0; block < words.size(); ++block) {
    shape.window = words[block] == "chunked_attention" ? chunk : 0;
    shape.rotary_width = turns[block] != 0 ? sizes.head_width : 0;
    blueprint.blocks.push_back(
        mixed_block(sizes.hidden, attention(shape), sparse[block] ? mixture(mixing) : dense));
  }
  return blueprint;
}

/// Attention and feed-forward behind one norm, as in Command R; the first blocks may be dense.
Blueprint read_cohere2_moe(Keys& keys) {
  keys.need({"num_experts", "num_experts_per_tok"});
  const Sizes sizes = read_sizes(keys, {256000, 8192, 22528, 40, 64, 0, 128, 8192, true});
  Blueprint blueprint = start(keys, sizes, true);
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  const std::int64_t window =
      keys.is_null("sliding_window") ? 0 : keys.natural("sliding_window", 4096);
  const std::int64_t first = keys.natural("first_k_dense_replace", 0);
  const std::int64_t dense_pattern = keys.count("prefix_dense_sliding_window_pattern", 1);
  const std::int64_t pattern = keys.count("sliding_window_pattern", 4);
  const std::vector<std::string> words =
      words_of_blocks(keys, "layer_types", sizes.blocks, {attends, windowed}, [&](int block) {
        const bool sees =
            block < first ? (block + 1) % dense_pattern == 0 : (block - first + 1) % pattern == 0;
        return sees ? attends : windowed;
      });
  const std::vector<std::string> kinds =
      kinds_of_blocks(keys, sizes.blocks, [&](int block) { return block >= first; });
  const MixtureShape mixing{.hidden = sizes.hidden,
                            .experts = keys.count("num_experts", 8),
                            .active = keys.count("num_experts_per_tok", 2),
                            .inner = sizes.inner,
                            .shared_inner = keys.natural("num_shared_experts", 0) * sizes.inner};
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  const Steps dense = feed_forward(
      {.hidden = sizes.hidden, .inner = keys.count("prefix_dense_intermediate_size", sizes.inner)});
  keys.ignore({"expert_selection_fn", "shared_expert_combination_strategy"});
  for (std::size_t block = 0; block < words.size(); ++block) {
    const bool slides = words[block] == windowed;
    shape.window = slides ? window : 0;
    const bool turns = slides || (kinds[block] == "dense" && dense_pattern == 1);
    shape.rotary_width = turns ? sizes.head_width : 0;
    Steps steps{norm("first norm", sizes.hidden)};
    add_steps(steps, attention(shape));
    add_steps(steps, kinds[block] == "dense" ? dense : mixture(mixing));
    blueprint.blocks.push_back(steps);
  }
  return blueprint;
}

/// Windows with positions, all tokens without; gates of attention with a bias for each head.
Blueprint read_beam(Keys& keys) {
  keys.need({"num_experts", "num_experts_per_tok", "moe_intermediate_size"});
  const Sizes sizes = read_sizes(keys, {151936, 5120, 20480, 52, 48, 8, 128, 8192});
  Blueprint blueprint = start(keys, sizes, false);
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  shape.norms = QueryKeyNorm::shared;
  shape.own_gate = true;
  const std::int64_t window =
      keys.is_null("sliding_window") ? 0 : keys.natural("sliding_window", 512);
  const std::vector<std::string> words =
      words_of_blocks(keys, "layer_types", sizes.blocks, {attends, windowed}, [&](int block) {
        return (block + 1) % 6 == 0 || block + 1 == sizes.blocks ? attends : windowed;
      });
  const std::vector<std::string> kinds =
      kinds_of_blocks(keys, sizes.blocks, [](int block) { return block >= 3; });
  MixtureShape mixing{.hidden = sizes.hidden,
                      .experts = keys.count("num_experts", 256),
                      .active = keys.count("num_experts_per_tok", 8),
                      .inner = keys.count("moe_intermediate_size", 2560)};
  set_groups(keys, {.count = 8, .active = 4}, mixing, blueprint.notes);
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  const Steps dense = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  for (std::size_t block = 0; block < words.size(); ++block) {
    const bool slides = words[block] == windowed;
    shape.window = slides ? window : 0;
    shape.rotary_width = slides ? sizes.head_width : 0;
    Steps steps{norm("first norm", sizes.hidden), numbers("attention gate", sizes.heads)};
    add_steps(steps, attention(shape));
    steps.push_back(norm("second norm", sizes.hidden));
    steps.push_back(norm("third norm", sizes.hidden));
    add_steps(steps, kinds[block] == "dense" ? dense : mixture(mixing));
    steps.push_back(norm("fourth norm", sizes.hidden));
    blueprint.blocks.push_back(steps);
  }
  return blueprint;
}

namespace {

/// Of queries in each block.
std::vector<std::int64_t> laguna_heads(Keys& keys, const Sizes& sizes) {
  constexpr std::string_view key = "num_attention_heads_per_layer";
  std::vector<std::int64_t> heads = keys.numbers(key);
  if (heads.empty())
    return std::vector<std::int64_t>(static_cast<std::size_t>(sizes.blocks), sizes.heads);
  if (std::cmp_not_equal(heads.size(), sizes.blocks)) {
    keys.fail(key, concat("expected a number for each of the ", sizes.blocks, " layers, found ",
                          heads.size()));
  }
  for (const std::int64_t count : heads) {
    if (count < 1 || count % sizes.key_value_heads != 0) {
      keys.fail(key, concat("expected multiples of num_key_value_heads = ", sizes.key_value_heads,
                            ", found ", count));
    }
  }
  return heads;
}

/// A gate for each head (true, "per-head"), or for each of its numbers.
bool laguna_gates_heads(Keys& keys) {
  if (!keys.has("gating")) return !keys.is_null("gating");
  const Json gating = keys.at("gating");
  if (!gating.is_string()) return gating.boolean();
  keys.only("gating", {"per-head", "per-element"});
  return gating.string() == "per-head";
}

}  // namespace

Blueprint read_laguna(Keys& keys) {
  keys.need({"num_experts", "num_experts_per_tok", "moe_intermediate_size"});
  const Sizes sizes = read_sizes(keys, {100352, 2048, 8192, 40, 48, 8, 128, 131072});
  Blueprint blueprint = start(keys, sizes, false);
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  shape.norms = QueryKeyNorm::shared;
  shape.head_gate = laguna_gates_heads(keys);
  shape.own_gate = !shape.head_gate;
  const std::vector<std::int64_t> heads = laguna_heads(keys, sizes);
  const std::int64_t window = keys.count("sliding_window", 512);
  const std::vector<std::string> words = words_of_blocks(
      keys, "layer_types", sizes.blocks, {attends, windowed}, [](int) { return attends; });
  const std::vector<std::string> kinds =
      kinds_of_blocks(keys, sizes.blocks, [](int block) { return block > 0; });
  MixtureShape mixing{.hidden = sizes.hidden,
                      .experts = keys.count("num_experts", 256),
                      .active = keys.count("num_experts_per_tok", 8),
                      .inner = keys.count("moe_intermediate_size", 512),
                      .shared_inner = keys.natural("shared_expert_intermediate_size", 512)};
  mixing.trained_scores = mixing.experts;
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  keys.ignore({"moe_routed_scaling_factor", "moe_router_logit_softcapping"});
  keys.refuse_true("moe_apply_router_weight_on_input", "the class in transformers refuses it, too");
  const Steps dense = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  for (std::size_t block = 0; block < words.size(); ++block) {
    const bool slides = words[block] == windowed;
    shape.heads = heads[block];
    shape.window = slides ? window : 0;
    shape.rotary_width = rotary_width(keys, sizes.head_width, slides ? 1.0 : 0.5, words[block]);
    blueprint.blocks.push_back(mixed_block(sizes.hidden, attention(shape),
                                           kinds[block] == "dense" ? dense : mixture(mixing)));
  }
  return blueprint;
}

namespace {

/// MiniMax-M3's indexer has a few heads for each token, chooses blocks of keys, and has norms of
/// its own. "sparse_attention_config" is what published files call its numbers.
struct BlockIndexer {
  std::int64_t heads = 4, width = 128, block = 128, blocks = 16;
  std::vector<std::int64_t> chooses;  ///< for each layer; empty: not said
};

BlockIndexer read_block_indexer(Keys& keys) {
  BlockIndexer indexer{.heads = keys.count("index_n_heads", 4),
                       .width = keys.count("index_head_dim", 128),
                       .block = keys.count("index_block_size", 128),
                       .blocks = keys.count("index_topk_blocks", 16),
                       .chooses = {}};
  keys.ignore({"index_local_blocks"});
  if (!keys.has("sparse_attention_config")) return indexer;
  Keys older(keys.at("sparse_attention_config"), true);
  indexer.heads = older.count("sparse_num_index_heads", indexer.heads);
  indexer.width = older.count("sparse_index_dim", indexer.width);
  indexer.block = older.count("sparse_block_size", indexer.block);
  indexer.blocks = older.count("sparse_topk_blocks", indexer.blocks);
  indexer.chooses = older.numbers("sparse_attention_freq");
  older.same("use_sparse_attention", true);
  older.only("sparse_score_type", {"max"});
  older.ignore({"sparse_local_block", "sparse_init_block", "sparse_disable_index_value"});
  older.refuse_unread("minimax_m3_vl_text");
  return indexer;
}

Steps block_indexer(const BlockIndexer& indexer, std::int64_t hidden) {
  return {divided("indexer query", indexer.heads * indexer.width, hidden, false, indexer.heads),
          beside(product("indexer key", indexer.width, hidden)),
          norm("indexer norm", indexer.width),
          norm("indexer norm", indexer.width),
          {.kind = StepKind::attention,
           .name = "indexer",
           .heads = indexer.heads,
           .key_value_heads = 1,
           .score_width = indexer.width}};
}

/// A word for each block by a list of numbers, one for each.
std::function<std::string(int)> words_by(Keys& keys, std::string_view name, int blocks,
                                         const std::vector<std::int64_t>& numbers,
                                         const std::string& yes, const std::string& no,
                                         const std::string& otherwise) {
  if (!numbers.empty() && std::cmp_not_equal(numbers.size(), blocks)) {
    keys.fail(name, concat("expected a number for each of the ", blocks, " layers, found ",
                           numbers.size()));
  }
  return [=](int block) {
    if (numbers.empty()) return otherwise;
    return numbers[static_cast<std::size_t>(block)] != 0 ? yes : no;
  };
}

}  // namespace

Blueprint read_minimax_m3(Keys& keys) {
  keys.need({"num_local_experts|num_experts", "num_experts_per_tok"});
  const Sizes sizes = read_sizes(keys, {200064, 6144, 3072, 60, 64, 4, 128, 524288});
  Blueprint blueprint = start(keys, sizes, false);
  GroupedAttention shape = grouped(sizes, false);
  shape.norms = QueryKeyNorm::shared;
  shape.rotary_width = keys.count("rotary_dim", 64);
  const BlockIndexer indexer = read_block_indexer(keys);
  const std::string chooses = "minimax_m3_sparse";
  const std::vector<std::string> words =
      words_of_blocks(keys, "layer_types", sizes.blocks, {attends, chooses},
                      words_by(keys, "sparse_attention_config", sizes.blocks, indexer.chooses,
                               chooses, attends, attends));
  const std::vector<std::string> kinds =
      words_of_blocks(keys, "mlp_layer_types", sizes.blocks, {"dense", "sparse"},
                      words_by(keys, "moe_layer_freq", sizes.blocks, keys.numbers("moe_layer_freq"),
                               "sparse", "dense", "sparse"));
  const MixtureShape mixing{.hidden = sizes.hidden,
                            .experts = keys.count("num_local_experts|num_experts", 128),
                            .active = keys.count("num_experts_per_tok", 4),
                            .inner = sizes.inner,
                            .shared_inner = keys.count("shared_intermediate_size", 3072)};
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  const Steps dense =
      feed_forward({.hidden = sizes.hidden, .inner = keys.count("dense_intermediate_size", 12288)});
  // Published files say what the class builds all the same.
  keys.same("use_qk_norm", true);
  keys.only("qk_norm_type", {"per_head"});
  keys.same("attention_output_gate", false);
  keys.same("n_shared_experts", std::int64_t{1});
  keys.ignore({"swiglu_alpha", "swiglu_limit", "use_gemma_norm", "use_routing_bias"});
  for (std::size_t block = 0; block < words.size(); ++block) {
    const bool is_sparse = words[block] == chooses;
    shape.window = is_sparse ? indexer.blocks * indexer.block : 0;
    Steps attending = is_sparse ? block_indexer(indexer, sizes.hidden) : Steps{};
    add_steps(attending, attention(shape));
    blueprint.blocks.push_back(
        mixed_block(sizes.hidden, attending, kinds[block] == "dense" ? dense : mixture(mixing)));
  }
  return blueprint;
}

namespace {

/// The published file spells out for blocks with a window what the class in transformers derives.
void require_mimo_of_class(Keys& keys, const GroupedAttention& shape, std::int64_t window,
                           const std::vector<std::string>& attending,
                           const std::vector<std::string>& feeding) {
  std::vector<std::int64_t> slides, sparse;
  for (const std::string& word : attending) slides.push_back(word == "sliding_attention");
  for (const std::string& word : feeding) sparse.push_back(word == "sparse");
  keys.same("hybrid_layer_pattern", slides);
  keys.same("moe_layer_freq", sparse);
  keys.same("swa_num_attention_heads", shape.heads);
  keys.same("swa_num_key_value_heads", 2 * shape.key_value_heads);
  keys.same("swa_head_dim", shape.width);
  keys.same("swa_v_head_dim", shape.value_width);
  keys.same("add_swa_attention_sink_bias", true);
  keys.same("add_full_attention_sink_bias", false);
  keys.same("attention_chunk_size", window - 1);
}

}  // namespace

/// Blocks with a window have twice the key-value heads, and sinks.
Blueprint read_mimo_v2_flash(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {152576, 4096, 16384, 48, 64, 4, 192, 131072});
  Blueprint blueprint = start(keys, sizes, false);
  const bool bias = keys.flag("attention_bias", false);
  GroupedAttention shape{.hidden = sizes.hidden,
                         .heads = sizes.heads,
                         .key_value_heads = sizes.key_value_heads,
                         .width = sizes.head_width,
                         .value_width = keys.count("v_head_dim", 128),
                         .query_bias = bias,
                         .key_bias = bias,
                         .value_bias = bias};
  shape.rotary_width = rotary_width(keys, sizes.head_width, 0.334);
  std::int64_t window = keys.count("sliding_window", 129);
  if (keys.has("sliding_window_size")) window = keys.count("sliding_window_size", 128) + 1;
  keys.ignore({"sliding_window", "attention_value_scale"});
  const std::vector<std::string> words = words_of_blocks(
      keys, "layer_types", sizes.blocks, {"full_attention", "sliding_attention"}, [](int block) {
        return block == 0 || (block + 1) % 6 == 0 ? "full_attention" : "sliding_attention";
      });
  const std::vector<std::string> kinds =
      kinds_of_blocks(keys, sizes.blocks, [](int block) { return block > 0; });
  require_mimo_of_class(keys, shape, window, words, kinds);
  MixtureShape mixing{.hidden = sizes.hidden,
                      .experts = keys.count("n_routed_experts|num_local_experts", 256),
                      .active = keys.count("num_experts_per_tok", 8),
                      .inner = keys.count("moe_intermediate_size", 2048)};
  set_groups(keys, {}, mixing, blueprint.notes);
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  const Steps dense = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  for (std::size_t block = 0; block < words.size(); ++block) {
    const bool slides = words[block] == "sliding_attention";
    shape.key_value_heads = (slides ? 2 : 1) * sizes.key_value_heads;
    shape.window = slides ? window : 0;
    shape.sinks = slides;
    blueprint.blocks.push_back(mixed_block(sizes.hidden, attention(shape),
                                           kinds[block] == "dense" ? dense : mixture(mixing)));
  }
  return blueprint;
}

namespace {

struct CompressedShape {
  std::int64_t hidden = 0, heads = 0, width = 0, query_rank = 0;
  std::int64_t groups = 0, output_rank = 0;  ///< of the projection back
  std::int64_t window = 0;
  Indexer indexer;
};

/// Keys made of `rate` tokens each: a projection, its gate, positions within, a norm.
Steps compressor(const CompressedShape& shape, std::int64_t rate, std::int64_t width,
                 std::int64_t overlap) {
  return {beside(product("compressor", overlap * width, shape.hidden)),
          beside(product("compressor gate", overlap * width, shape.hidden)),
          numbers("compressor", rate * overlap * width), norm("compressor norm", width)};
}

/// Windows for near tokens, compressed keys for far ones: chosen by an indexer where blocks are
/// small ("compressed sparse"), all where they are large ("heavily compressed").
Steps compressed_attention(const CompressedShape& shape, std::int64_t rate, bool chooses) {
  const std::int64_t queries = shape.heads * shape.width;
  Steps steps{
      product("query down", shape.query_rank, shape.hidden), norm("query norm", shape.query_rank),
      divided("query up", queries, shape.query_rank, false, shape.heads),
      beside(product("key value down", shape.width, shape.hidden)), norm("key norm", shape.width)};
  const Step near{.kind = StepKind::attention,
                  .name = "attention",
                  .outputs = shape.heads,  // sinks
                  .heads = shape.heads,
                  .key_value_heads = 1,
                  .score_width = shape.width,
                  .value_width = shape.width,
                  .window = shape.window};
  steps.push_back(near);
  if (rate > 0) {
    add_steps(steps, compressor(shape, rate, shape.width, chooses ? 2 : 1));
    Step far = near;
    far.name = "compressed attention";
    far.outputs = 0;
    far.window = 0;
    far.stride = rate;
    if (chooses) {
      const Indexer& indexer = shape.indexer;
      add_steps(steps, compressor(shape, rate, indexer.width, 2));
      steps.push_back(beside(divided("indexer query", indexer.heads * indexer.width,
                                     shape.query_rank, false, indexer.heads)));
      steps.push_back(beside(product("indexer weights", indexer.heads, shape.hidden)));
      steps.push_back({.kind = StepKind::attention,
                       .name = "indexer",
                       .heads = indexer.heads,
                       .key_value_heads = 1,
                       .score_width = indexer.width,
                       .stride = rate});
      far.window = indexer.keys;
    }
    steps.push_back(far);
  }
  // Groups of heads go down to a rank each, and all ranks back up.
  Step down = divided("output down", shape.output_rank * shape.groups, queries / shape.groups,
                      false, shape.groups);
  steps.push_back(beside(down));
  steps.push_back(summed("output up", shape.hidden, shape.groups * shape.output_rank));
  return steps;
}

}  // namespace

Blueprint read_deepseek_v4(Keys& keys) {
  Sizes sizes = read_sizes(keys, {129280, 4096, 1, 43, 64, 1, 512, 1048576});
  keys.ignore({"attention_bias", "num_hash_layers", "hc_sinkhorn_iters", "hc_eps", "swiglu_limit",
               "compress_rope_theta", "qk_rope_head_dim"});
  CompressedShape shape{.hidden = sizes.hidden,
                        .heads = sizes.heads,
                        .width = sizes.head_width,
                        .query_rank = keys.count("q_lora_rank", 1024),
                        .groups = keys.count("o_groups", 8),
                        .output_rank = keys.count("o_lora_rank", 1024),
                        .window = keys.count("sliding_window", 128),
                        .indexer = {.heads = keys.count("index_n_heads", 64),
                                    .width = keys.count("index_head_dim", 128),
                                    .keys = keys.count("index_topk", 512)}};
  if (sizes.heads * sizes.head_width % shape.groups != 0) {
    keys.fail("o_groups",
              concat(shape.groups, " groups do not divide the ", sizes.heads, " heads"));
  }
  const std::string sparse = "compressed_sparse_attention";
  const std::string heavy = "heavily_compressed_attention";
  const std::string slides = "sliding_attention";
  std::int64_t sparse_rate = keys.count("compress_rate_csa", 4);
  std::int64_t heavy_rate = keys.count("compress_rate_hca", 128);
  if (keys.has("compress_rates")) {
    Keys rates(keys.at("compress_rates"), true);
    sparse_rate = rates.count(sparse, sparse_rate);
    heavy_rate = rates.count(heavy, heavy_rate);
    rates.refuse_unread("deepseek_v4");
  }
  std::vector<std::int64_t> ratios = keys.numbers("compress_ratios");
  const std::vector<std::string> words =
      words_of_blocks(keys, "layer_types", sizes.blocks, {sparse, heavy, slides}, [&](int block) {
        if (std::cmp_less(block, ratios.size())) {
          const std::int64_t ratio = ratios[static_cast<std::size_t>(block)];
          return ratio == 0 ? slides : ratio < 64 ? sparse : heavy;
        }
        return block < 2 || block % 2 == 0 ? heavy : sparse;
      });
  keys.ignore({"mlp_layer_types"});
  MixtureShape mixing{.hidden = sizes.hidden,
                      .experts = keys.count("n_routed_experts|num_local_experts", 256),
                      .active = keys.count("num_experts_per_tok", 6),
                      .inner = keys.count("moe_intermediate_size|intermediate_size", 2048)};
  mixing.shared_inner = mixing.inner;
  mixing.shared_bias = keys.flag("mlp_bias", false);
  Blueprint blueprint = start(keys, sizes, false);
  if (const std::int64_t shared = keys.natural("n_shared_experts", 1); shared != 1) {
    blueprint.notes.push_back(concat("n_shared_experts is ", shared,
                                     ", but the class in transformers builds one shared expert, "
                                     "which is counted"));
  }
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  const std::int64_t streams = keys.count("hc_mult", 4);
  blueprint.numbers.streams = streams;
  for (const std::string& word : words) {
    Steps block = hyper_connections(sizes.hidden, streams, true);
    block.push_back(norm("first norm", sizes.hidden));
    const std::int64_t rate = word == sparse ? sparse_rate : word == heavy ? heavy_rate : 0;
    add_steps(block, compressed_attention(shape, rate, word == sparse));
    add_steps(block, hyper_connections(sizes.hidden, streams, true));
    block.push_back(norm("second norm", sizes.hidden));
    add_steps(block, mixture(mixing));
    blueprint.blocks.push_back(block);
  }
  const Steps joining = joined_streams(sizes.hidden, streams);
  blueprint.last.insert(blueprint.last.begin(), joining.begin(), joining.end());
  return blueprint;
}

}  // namespace stagecraft
