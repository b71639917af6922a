// Latent attention in some blocks, and something else in the others, which no row describes:
// GLM-5.3, Mistral Large 4 and dots 3 Note.

#include <algorithm>
#include <cmath>

#include "profiles/error.hpp"
#include "profiles/importers/families/families.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// "full": a block's indexer chooses; "shared": an earlier one's choice holds.
bool chooses_itself(const std::vector<std::string>& indexers, std::size_t block) {
  return indexers[block] == "full";
}

MixtureShape read_seeing_mixture(Keys& keys, std::int64_t hidden, std::int64_t experts,
                                 std::int64_t active, std::int64_t inner,
                                 std::vector<std::string>& notes) {
  MixtureShape mixing{.hidden = hidden,
                      .experts = keys.count("n_routed_experts|num_local_experts", experts),
                      .active = keys.count("num_experts_per_tok", active),
                      .inner = keys.count("moe_intermediate_size", inner)};
  mixing.shared_inner = keys.natural("n_shared_experts", 1) * mixing.inner;
  set_groups(keys, {}, mixing, notes);
  return mixing;
}

}  // namespace

/// Kimi's delta rule in three of four blocks, chosen keys in the others, streams around both.
Blueprint read_glm5_next(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {.vocabulary = 154880,
                                        .hidden = 4096,
                                        .inner = 12288,
                                        .blocks = 45,
                                        .heads = 64,
                                        .head_width = 256,
                                        .positions = 1048576,
                                        .latent = true});
  keys.same("num_key_value_heads", sizes.heads);
  Blueprint blueprint = start(keys, sizes, false);
  keys.same("qk_rope_head_dim", std::int64_t{0});
  keys.ignore({"head_dim", "qk_head_dim", "swiglu_limit", "linear_lower_bound", "hc_eps",
               "hc_sinkhorn_iters", "index_kpool_always_select_tail"});
  LatentShape attending{.hidden = sizes.hidden,
                        .heads = sizes.heads,
                        .query_rank = keys.count("q_lora_rank", 1536),
                        .key_value_rank = keys.count("kv_lora_rank", 512),
                        .rotary_width = 0,
                        .plain_width = keys.count("qk_nope_head_dim", 256),
                        .value_width = keys.count("v_head_dim", 256),
                        .bias = keys.flag("attention_bias", false),
                        .indexer = {.heads = keys.count("index_n_heads", 32),
                                    .width = keys.count("index_head_dim", 128),
                                    .keys = keys.count("index_topk", 2048),
                                    .pool = keys.count("index_kpool", 16)}};
  if (keys.is_null("q_lora_rank"))
    keys.fail("q_lora_rank", "expected an integer: the class in transformers needs it, too");
  if (attending.indexer.keys % attending.indexer.pool != 0) {
    keys.fail("index_topk", concat("expected a multiple of index_kpool = ", attending.indexer.pool,
                                   ", found ", attending.indexer.keys));
  }
  KimiDeltaShape delta{.hidden = sizes.hidden,
                       .heads = keys.count("linear_num_heads", 64),
                       .width = keys.count("linear_head_dim", 128),
                       .kernel = keys.count("linear_conv_kernel_dim", 4)};
  if (keys.has("linear_attn_config")) {
    Keys linear(keys.at("linear_attn_config"), true);
    delta.heads = linear.count("num_heads", delta.heads);
    delta.width = linear.count("head_dim", delta.width);
    delta.kernel = linear.count("short_conv_kernel_size", delta.kernel);
    linear.ignore({"gate_lower_bound", "safe_gate", "full_attn_layers", "kda_layers"});
    linear.refuse_unread("glm5_next_text");
  }
  const std::string chooses = "indexed_attention";
  const std::vector<std::string> words =
      words_of_blocks(keys, "layer_types", sizes.blocks, {attends, chooses, recurs},
                      [&](int block) { return block % 4 != 3 ? recurs : chooses; });
  const std::vector<std::string> indexers = indexers_of_blocks(keys, sizes.blocks);
  const std::vector<std::string> kinds =
      kinds_of_blocks(keys, sizes.blocks, [](int block) { return block >= 3; });
  const MixtureShape mixing =
      read_seeing_mixture(keys, sizes.hidden, 288, 8, 2048, blueprint.notes);
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  const Steps dense = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  const std::int64_t streams = keys.count("hc_mult", 4);
  blueprint.numbers.streams = streams;
  for (std::size_t block = 0; block < words.size(); ++block) {
    attending.indexer.computes = chooses_itself(indexers, block);
    Steps steps = hyper_connections(sizes.hidden, streams, true);
    add_steps(steps,
              mixed_block(sizes.hidden,
                          words[block] == recurs ? kimi_delta(delta) : latent_attention(attending),
                          hyper_connections(sizes.hidden, streams, true)));
    add_steps(steps, kinds[block] == "dense" ? dense : mixture(mixing));
    blueprint.blocks.push_back(steps);
  }
  return blueprint;
}

namespace {

/// For each block the one whose latents of keys and values it reads; its own unless a file says.
std::vector<std::int64_t> latent_sources(Keys& keys, int blocks) {
  std::vector<std::int64_t> sources = keys.numbers("kv_source_layers");
  if (sources.empty()) {
    for (int block = 0; block < blocks; ++block) sources.push_back(block);
    return sources;
  }
  if (std::cmp_not_equal(sources.size(), blocks)) {
    keys.fail("kv_source_layers", concat("expected a number for each of the ", blocks,
                                         " layers, found ", sources.size()));
  }
  for (std::size_t block = 0; block < sources.size(); ++block) {
    const std::int64_t source = sources[block];
    const bool is_earlier = source >= 0 && std::cmp_less_equal(source, block);
    if (!is_earlier || sources[static_cast<std::size_t>(source)] != source) {
      keys.fail("kv_source_layers",
                concat("layer ", block, " must read its own latents or an earlier layer's that ",
                       "reads its own, found ", source));
    }
  }
  return sources;
}

}  // namespace

namespace {

/// What differs in dots 3 Note's blocks with a window, under names that begin with `before`.
LatentShape read_sliding_dots(Keys& from, const std::string& before, const LatentShape& otherwise) {
  LatentShape shape = otherwise;
  shape.heads = from.count(before + "num_attention_heads", otherwise.heads);
  from.same(before + "num_key_value_heads", shape.heads);
  shape.query_rank = from.count(before + "q_lora_rank", otherwise.query_rank);
  shape.key_value_rank = from.count(before + "kv_lora_rank", otherwise.key_value_rank);
  shape.plain_width = from.count(before + "qk_nope_head_dim", otherwise.plain_width);
  shape.value_width = from.count(before + "v_head_dim", otherwise.value_width);
  const std::int64_t width = from.count(before + "head_dim", 256);
  const std::int64_t rest = std::max<std::int64_t>(width - shape.plain_width, 1);
  shape.rotary_width =
      from.count(before + "qk_rope_head_dim", before.empty() ? otherwise.rotary_width : rest);
  return shape;
}

/// Those of each block: the library writes a member for each that differs, published files have
/// keys for all of them.
std::vector<LatentShape> sliding_dots(Keys& keys, int blocks, const LatentShape& usual) {
  std::vector<LatentShape> shapes(static_cast<std::size_t>(blocks), usual);
  if (!keys.has("per_layer_config")) {
    LatentShape sliding = usual;
    sliding.heads = 64;
    sliding.query_rank = sliding.key_value_rank = 1024;
    sliding.plain_width = 192;
    sliding.value_width = 128;
    shapes.assign(shapes.size(), read_sliding_dots(keys, "swa_", sliding));
    return shapes;
  }
  const std::vector<std::optional<Json>> configs = configs_of_blocks(keys, blocks);
  for (std::size_t block = 0; block < configs.size(); ++block) {
    if (!configs[block]) continue;
    Keys layer(*configs[block], true);
    shapes[block] = read_sliding_dots(layer, "", usual);
    layer.refuse_unread("dots3_note_text");
  }
  return shapes;
}

}  // namespace

/// Latent attention: of chosen keys in some blocks, of a window and with other sizes in the rest.
Blueprint read_dots3_note(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {.vocabulary = 152064,
                                        .hidden = 5120,
                                        .inner = 13824,
                                        .blocks = 46,
                                        .heads = 128,
                                        .head_width = 256,
                                        .positions = 524288,
                                        .latent = true});
  keys.same("num_key_value_heads", sizes.heads);
  Blueprint blueprint = start(keys, sizes, false);
  keys.ignore({"head_dim", "mlp_bias", "swa_head_dim"});
  LatentShape attending{.hidden = sizes.hidden,
                        .heads = sizes.heads,
                        .query_rank = keys.count("q_lora_rank", 1024),
                        .key_value_rank = keys.count("kv_lora_rank", 512),
                        .rotary_width = keys.count("qk_rope_head_dim", 64),
                        .plain_width = keys.count("qk_nope_head_dim", 128),
                        .value_width = keys.count("v_head_dim", 128),
                        .bias = keys.flag("attention_bias", false),
                        .head_gate = true,
                        .rotary_norm = true};
  const Indexer indexer{.heads = keys.count("index_n_heads", 64),
                        .width = keys.count("index_head_dim", 128),
                        .keys = keys.count("index_topk", 2048)};
  if (keys.is_null("q_lora_rank"))
    keys.fail("q_lora_rank", "expected an integer: the class in transformers needs it, too");
  const std::int64_t window = keys.count("sliding_window|sliding_window_size", 512);
  const bool slides_at_all = keys.flag("use_sliding_window", true);
  const bool chooses = keys.flag("use_dsa", true);
  const std::string chosen = "indexed_attention";
  const std::vector<std::string> words = words_of_blocks(
      keys, "layer_types", sizes.blocks, {attends, chosen, windowed},
      [&](int block) { return !slides_at_all || block < 2 || block % 4 == 1 ? chosen : windowed; });
  const std::int64_t first = keys.natural("first_k_dense_replace", 1);
  const std::int64_t every = keys.count("moe_layer_freq", 1);
  const std::vector<std::string> kinds = kinds_of_blocks(
      keys, sizes.blocks, [&](int block) { return block >= first && block % every == 0; });
  MixtureShape mixing = read_seeing_mixture(keys, sizes.hidden, 256, 8, 1536, blueprint.notes);
  mixing.shared_inner =
      keys.count("n_shared_experts", 1) *
      keys.count("moe_shared_expert_intermediate_size|shared_experts_intermediate_size", 1536);
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  const Steps dense = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  // Without "use_dsa" the words that the library itself wrote hold.
  const std::vector<LatentShape> sliding = sliding_dots(keys, sizes.blocks, attending);
  const bool converts = keys.has("use_dsa") || !keys.has("per_layer_config");
  for (std::size_t block = 0; block < words.size(); ++block) {
    const bool slides = words[block] == windowed;
    LatentShape shape = slides ? sliding[block] : attending;
    const bool is_chosen = converts ? chooses && !slides : words[block] == chosen;
    shape.window = slides ? window : 0;
    shape.indexer = is_chosen ? indexer : Indexer{};
    blueprint.blocks.push_back(mixed_block(sizes.hidden, latent_attention(shape),
                                           kinds[block] == "dense" ? dense : mixture(mixing)));
  }
  return blueprint;
}

/// Latents that several blocks share, chosen keys, and learned scales of scores; every fourth block
/// has no positions.
Blueprint read_mistral_large4(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {.vocabulary = 204800,
                                        .hidden = 6144,
                                        .inner = 24576,
                                        .blocks = 72,
                                        .heads = 64,
                                        .head_width = 128,
                                        .positions = 1048576,
                                        .latent = true});
  Blueprint blueprint = start(keys, sizes, false);
  keys.ignore({"head_dim", "qk_head_dim"});
  const std::int64_t rotary = keys.count("qk_rope_head_dim", 64);
  const std::int64_t plain = keys.count("qk_nope_head_dim", 64);
  LatentShape attending{.hidden = sizes.hidden,
                        .heads = sizes.heads,
                        .key_value_rank = keys.count("kv_lora_rank", 512),
                        .value_width = keys.count("v_head_dim", 128),
                        .bias = keys.flag("attention_bias", false),
                        .indexer = {.heads = keys.count("index_n_heads", 32),
                                    .width = keys.count("index_head_dim", 128),
                                    .keys = keys.count("index_topk", 2048)},
                        .scaled_scores = true};
  const std::vector<std::int64_t> turned = keys.numbers("no_rope_layers");
  const std::int64_t interval = keys.count("no_rope_layer_interval", 4);
  if (!turned.empty() && std::cmp_not_equal(turned.size(), sizes.blocks)) {
    keys.fail("no_rope_layers", concat("expected a number for each of the ", sizes.blocks,
                                       " layers, found ", turned.size()));
  }
  const std::vector<std::int64_t> sources = latent_sources(keys, sizes.blocks);
  words_of_blocks(keys, "layer_types", sizes.blocks, {"indexed_attention"},
                  [](int) { return "indexed_attention"; });
  const std::vector<std::string> indexers = indexers_of_blocks(keys, sizes.blocks);
  const std::int64_t first = keys.natural("first_k_dense_replace", 1);
  const std::vector<std::string> kinds =
      kinds_of_blocks(keys, sizes.blocks, [&](int block) { return block >= first; });
  const MixtureShape mixing =
      read_seeing_mixture(keys, sizes.hidden, 128, 4, 6144, blueprint.notes);
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  const Steps dense = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  for (std::size_t block = 0; block < kinds.size(); ++block) {
    const bool turns =
        turned.empty() ? std::cmp_not_equal((block + 1) % interval, 0) : turned[block] != 0;
    attending.rotary_width = turns ? rotary : 0;
    attending.plain_width = turns ? plain : plain + rotary;
    attending.borrows_keys = std::cmp_not_equal(sources[block], block);
    attending.indexer.computes = chooses_itself(indexers, block);
    blueprint.blocks.push_back(mixed_block(sizes.hidden, latent_attention(attending),
                                           kinds[block] == "dense" ? dense : mixture(mixing)));
  }
  return blueprint;
}

}  // namespace stagecraft
