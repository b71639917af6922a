// Families before and beside Llama's: GPT-2 and what followed it, and DBRX.

#include <algorithm>
#include <cmath>

#include "profiles/error.hpp"
#include "profiles/importers/families/families.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr auto shifting = NormWeights::weight_and_bias;

/// Layer norm, attention, feed-forward of one matrix up.
struct ClassicShape {
  GroupedAttention attention;
  std::int64_t inner = 0;
  bool feed_forward_bias = true;
  int norms = 2;
  NormWeights norm_weights = shifting;
};

Steps classic_block(const ClassicShape& shape) {
  const std::int64_t hidden = shape.attention.hidden;
  Steps steps{norm("first norm", hidden, shape.norm_weights)};
  add_steps(steps, attention(shape.attention));
  if (shape.norms > 1) steps.push_back(norm("second norm", hidden, shape.norm_weights));
  add_steps(steps, feed_forward({.hidden = hidden,
                                 .inner = shape.inner,
                                 .gated = false,
                                 .up_bias = shape.feed_forward_bias,
                                 .down_bias = shape.feed_forward_bias}));
  return steps;
}

/// As GPT-2 calls them: n_embd, n_layer, n_head, n_positions, n_inner.
Sizes read_gpt_sizes(Keys& keys, const Defaults& defaults) {
  keys.need({"n_embd|hidden_size", "n_layer|num_hidden_layers", "n_head|num_attention_heads",
             "vocab_size"});
  Sizes sizes;
  sizes.hidden = keys.count("n_embd|hidden_size", defaults.hidden);
  sizes.blocks = read_blocks(keys, "n_layer|num_hidden_layers", defaults.blocks);
  sizes.heads = sizes.key_value_heads = keys.count("n_head|num_attention_heads", defaults.heads);
  if (sizes.hidden % sizes.heads != 0) {
    keys.fail("n_head|num_attention_heads",
              concat(sizes.heads, " heads do not divide n_embd = ", sizes.hidden));
  }
  sizes.head_width = sizes.hidden / sizes.heads;
  sizes.inner = keys.count("n_inner", 4 * sizes.hidden);
  sizes.vocabulary = keys.count("vocab_size", defaults.vocabulary);
  sizes.positions = keys.count("n_positions|max_position_embeddings", defaults.positions);
  return sizes;
}

void fill(Blueprint& blueprint, int blocks, const Steps& block) {
  blueprint.blocks.assign(static_cast<std::size_t>(blocks), block);
}

/// Costs are the same with another function, results are not.
void require_gelu(Keys& keys, Transformer& numbers) {
  const std::string activation = keys.word("activation_function", "gelu_new");
  if (activation == "gelu_new" || activation == "gelu_pytorch_tanh") return;
  numbers.untrainable = concat("its activation_function is \"", activation, "\"");
}

}  // namespace

Blueprint read_gpt2(Keys& keys) {
  keys.need({"n_embd|hidden_size", "n_layer|num_hidden_layers", "n_head|num_attention_heads",
             "n_positions|max_position_embeddings", "vocab_size"});
  keys.refuse_true("add_cross_attention", "blocks with cross-attention are not known here");
  const Sizes sizes = read_gpt_sizes(keys, {50257, 768, 0, 12, 12, 0, 0, 1024});
  Blueprint blueprint = start(keys, sizes, true, shifting);
  add_positions(blueprint, sizes.positions);
  fill(blueprint, sizes.blocks,
       classic_block({.attention = grouped(sizes, true), .inner = sizes.inner}));
  Transformer& numbers = blueprint.numbers;
  numbers.activation = Transformer::FeedForward::gelu;
  numbers.attention_bias = numbers.output_bias = numbers.feed_forward_bias = true;
  numbers.norm_epsilon = keys.number("layer_norm_epsilon", 1e-5);
  require_gelu(keys, numbers);
  if (keys.flag("scale_attn_by_inverse_layer_idx", false))
    numbers.untrainable = "its scale_attn_by_inverse_layer_idx is true";
  if (!keys.flag("scale_attn_weights", true))
    numbers.untrainable = "its scale_attn_weights is false";
  keys.ignore({"reorder_and_upcast_attn"});
  blueprint.is_plain = true;
  return blueprint;
}

/// Experts in each block, and keys of their own for both halves of it.
Blueprint read_dbrx(Keys& keys) {
  keys.need({"d_model|hidden_size", "n_layers|num_hidden_layers", "n_heads|num_attention_heads",
             "vocab_size"});
  Sizes sizes;
  sizes.hidden = keys.count("d_model|hidden_size", 2048);
  sizes.blocks = read_blocks(keys, "n_layers|num_hidden_layers", 24);
  sizes.heads = keys.count("n_heads|num_attention_heads", 16);
  sizes.vocabulary = keys.count("vocab_size", 32000);
  sizes.positions = keys.count("max_seq_len|max_position_embeddings", 2048);
  sizes.key_value_heads = 1;
  if (keys.has("attn_config")) {
    Keys attending(keys.at("attn_config"), true);
    sizes.key_value_heads = attending.count("kv_n_heads", 1);
    attending.refuse_unread("dbrx");
  }
  keys.ignore({"num_key_value_heads"});
  if (sizes.hidden % sizes.heads != 0 || sizes.heads % sizes.key_value_heads != 0) {
    keys.fail("n_heads|num_attention_heads",
              concat("expected a divisor of d_model = ", sizes.hidden, " and a multiple of the ",
                     sizes.key_value_heads, " key-value heads, found ", sizes.heads));
  }
  sizes.head_width = sizes.hidden / sizes.heads;
  MixtureShape mixing{.hidden = sizes.hidden, .experts = 4, .active = 1, .inner = 3584};
  if (keys.has("ffn_config")) {
    Keys feeding(keys.at("ffn_config"), true);
    mixing.experts = feeding.count("moe_num_experts", mixing.experts);
    mixing.active = feeding.count("moe_top_k", mixing.active);
    mixing.inner = feeding.count("ffn_hidden_size", mixing.inner);
    feeding.ignore({"hidden_size", "ffn_act_fn", "moe_jitter_eps", "moe_loss_weight",
                    "moe_normalize_expert_weights", "uniform_expert_assignment"});
    feeding.refuse_unread("dbrx");
  }
  sizes.inner = mixing.inner;
  Blueprint blueprint = start(keys, sizes, false);
  set_experts(keys, "ffn_config", blueprint.numbers, mixing);
  GroupedAttention shape = grouped(sizes, false);
  shape.rotary_width = sizes.head_width;
  fill(blueprint, sizes.blocks, mixed_block(sizes.hidden, attention(shape), mixture(mixing)));
  return blueprint;
}

Blueprint read_gpt_bigcode(Keys& keys) {
  keys.refuse_true("add_cross_attention", "blocks with cross-attention are not known here");
  Sizes sizes = read_gpt_sizes(keys, {50257, 768, 0, 12, 12, 0, 0, 1024});
  if (keys.flag("multi_query", true)) sizes.key_value_heads = 1;
  Blueprint blueprint = start(keys, sizes, true, shifting);
  add_positions(blueprint, sizes.positions);
  fill(blueprint, sizes.blocks,
       classic_block({.attention = grouped(sizes, true), .inner = sizes.inner}));
  keys.ignore({"scale_attn_weights", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32",
               "num_key_value_heads", "attention_head_type", "inference_runner", "max_batch_size",
               "max_sequence_length", "pad_key_length", "pre_allocate_kv_cache",
               "validate_runner_input"});
  return blueprint;
}

namespace {

/// The first GPT's blocks: norms stand behind attention and feed-forward.
Steps first_gpt_block(const Sizes& sizes) {
  Steps steps = attention(grouped(sizes, true));
  steps.push_back(norm("first norm", sizes.hidden, shifting));
  add_steps(steps, feed_forward({.hidden = sizes.hidden,
                                 .inner = sizes.inner,
                                 .gated = false,
                                 .up_bias = true,
                                 .down_bias = true}));
  steps.push_back(norm("second norm", sizes.hidden, shifting));
  return steps;
}

}  // namespace

Blueprint read_openai_gpt(Keys& keys) {
  Sizes sizes = read_gpt_sizes(keys, {40478, 768, 0, 12, 12, 0, 0, 512});
  // The class has four times the hidden width, whatever a file says.
  keys.same("n_inner", 4 * sizes.hidden);
  sizes.inner = 4 * sizes.hidden;
  Blueprint blueprint = start(keys, sizes, true, shifting);
  add_positions(blueprint, sizes.positions);
  blueprint.last.clear();
  fill(blueprint, sizes.blocks, first_gpt_block(sizes));
  keys.ignore({"afn", "n_special", "predict_special_tokens"});
  return blueprint;
}

/// Positions are computed.
Blueprint read_ctrl(Keys& keys) {
  Sizes sizes = read_gpt_sizes(keys, {246534, 1280, 0, 48, 16, 0, 0, 256});
  sizes.inner = keys.count("dff", 8192);
  keys.ignore({"n_inner", "from_tf"});
  Blueprint blueprint = start(keys, sizes, true, shifting);
  blueprint.numbers.position = Transformer::Position::none;
  blueprint.head_bias = true;
  fill(blueprint, sizes.blocks,
       classic_block({.attention = grouped(sizes, true), .inner = sizes.inner}));
  return blueprint;
}

/// One norm before attention and feed-forward, which are added up.
Blueprint read_gptj(Keys& keys) {
  const Sizes sizes = read_gpt_sizes(keys, {50400, 4096, 0, 28, 16, 0, 0, 2048});
  Blueprint blueprint = start(keys, sizes, false, shifting);
  GroupedAttention shape = grouped(sizes, false);
  shape.rotary_width = std::min(keys.natural("rotary_dim", 64), sizes.head_width);
  fill(blueprint, sizes.blocks,
       classic_block({.attention = shape, .inner = sizes.inner, .norms = 1}));
  blueprint.head_bias = true;
  blueprint.spans_of_labels = true;
  keys.ignore({"rotary", "gradient_checkpointing", "scale_attn_weights"});
  return blueprint;
}

namespace {

/// What GPT-NeoX's blocks compute with: a feed-forward beside attention unless the file says behind
/// it, and a part of each head that positions turn.
void set_neox_numbers(Keys& keys, Blueprint& blueprint, const GroupedAttention& attention) {
  Transformer& numbers = blueprint.numbers;
  Arithmetic& arithmetic = numbers.arithmetic;
  blueprint.is_trained = blueprint.has_own_arithmetic = true;
  numbers.activation = Transformer::FeedForward::gelu;
  numbers.attention_bias = numbers.output_bias = attention.query_bias;
  numbers.feed_forward_bias = true;
  numbers.norm_epsilon = keys.number("layer_norm_eps", 1e-5);
  numbers.rotary_base = keys.number("rotary_emb_base", 10000.0);
  arithmetic.parallel_residual = keys.flag("use_parallel_residual", true);
  if (attention.rotary_width < attention.width) arithmetic.rotary_width = attention.rotary_width;
  if (attention.rotary_width == 0) numbers.untrainable = "positions turn nothing of its heads";
  const std::string activation = keys.word("hidden_act", "gelu");
  if (activation == "gelu") {
    arithmetic.activation = Arithmetic::Activation::exact_gelu;
  } else if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    numbers.untrainable = concat("its hidden_act is \"", activation, "\"");
  }
}

}  // namespace

Blueprint read_gpt_neox(Keys& keys) {
  keys.need({"intermediate_size"});
  const Sizes sizes =
      read_sizes(keys, {50432, 6144, 24576, 44, 64, 0, 0, 2048}, Unread::heads_and_width);
  Blueprint blueprint = start(keys, sizes, false, shifting);
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", true));
  shape.rotary_width = rotary_width(keys, sizes.head_width, 0.25);
  fill(blueprint, sizes.blocks, classic_block({.attention = shape, .inner = sizes.inner}));
  set_neox_numbers(keys, blueprint, shape);
  return blueprint;
}

Blueprint read_bloom(Keys& keys) {
  Sizes sizes;
  keys.need({"hidden_size|n_embed", "n_layer|num_hidden_layers", "n_head|num_attention_heads",
             "vocab_size"});
  sizes.hidden = keys.count("n_embed|hidden_size", 64);
  sizes.blocks = read_blocks(keys, "n_layer|num_hidden_layers", 2);
  sizes.heads = sizes.key_value_heads = keys.count("n_head|num_attention_heads", 8);
  if (sizes.hidden % sizes.heads != 0)
    keys.fail("n_head|num_attention_heads",
              concat(sizes.heads, " heads do not divide hidden_size = ", sizes.hidden));
  sizes.head_width = sizes.hidden / sizes.heads;
  sizes.inner = 4 * sizes.hidden;
  sizes.vocabulary = keys.count("vocab_size", 250880);
  sizes.positions = keys.count("seq_length", 2048);
  keys.ignore({"hidden_size", "apply_residual_connection_post_layernorm", "slow_but_exact",
               "masked_softmax_fusion", "attention_softmax_in_fp32", "bias_dropout_fusion",
               "skip_bias_add", "skip_bias_add_qkv", "offset_alibi", "unk_token_id"});
  Blueprint blueprint = start(keys, sizes, true, shifting);
  blueprint.numbers.position = Transformer::Position::none;
  blueprint.embedding.push_back(norm("embedding norm", sizes.hidden, shifting));
  fill(blueprint, sizes.blocks,
       classic_block({.attention = grouped(sizes, true), .inner = sizes.inner}));
  return blueprint;
}

Blueprint read_falcon(Keys& keys) {
  Sizes sizes;
  keys.need({"hidden_size|n_embed", "num_hidden_layers|n_layer", "num_attention_heads|n_head",
             "vocab_size"});
  sizes.hidden = keys.count("n_embed|hidden_size", 4544);
  sizes.blocks = read_blocks(keys, "num_hidden_layers|n_layer", 32);
  sizes.heads = keys.count("num_attention_heads|n_head", 71);
  if (sizes.hidden % sizes.heads != 0)
    keys.fail("num_attention_heads|n_head",
              concat(sizes.heads, " heads do not divide hidden_size = ", sizes.hidden));
  sizes.head_width = sizes.hidden / sizes.heads;
  const bool is_new = keys.flag("new_decoder_architecture", false);
  const std::int64_t groups = keys.count("num_kv_heads|n_head_kv", sizes.heads);
  const bool shares = keys.flag("multi_query", true);
  sizes.key_value_heads = is_new ? groups : shares ? 1 : sizes.heads;
  if (sizes.heads % sizes.key_value_heads != 0)
    keys.fail("num_kv_heads|n_head_kv",
              concat(sizes.key_value_heads, " key-value heads do not divide the ", sizes.heads,
                     " attention heads"));
  sizes.inner = keys.count("ffn_hidden_size", 4 * sizes.hidden);
  sizes.vocabulary = keys.count("vocab_size", 65024);
  sizes.positions = keys.count("max_position_embeddings", 2048);
  Blueprint blueprint = start(keys, sizes, true, shifting);
  const bool bias = keys.flag("bias", false);
  GroupedAttention shape = grouped(sizes, bias);
  shape.rotary_width = keys.flag("alibi", false) ? 0 : sizes.head_width;
  const bool parallel = keys.flag("parallel_attn", true);
  const std::int64_t norms = keys.natural("num_ln_in_parallel_attn", is_new ? 2 : 1);
  keys.ignore({"hidden_size", "activation", "apply_residual_connection_post_layernorm"});
  fill(blueprint, sizes.blocks,
       classic_block({.attention = shape,
                      .inner = sizes.inner,
                      .feed_forward_bias = bias,
                      .norms = !parallel || norms == 2 ? 2 : 1}));
  return blueprint;
}

namespace {

/// OPT's blocks as the executor computes them: max(0, x) between the two products of the
/// feed-forward, and biases in all products or in none.
void set_opt_numbers(Blueprint& blueprint, bool bias) {
  Transformer& numbers = blueprint.numbers;
  numbers.activation =
      Transformer::FeedForward::gelu;  // one matrix up; the steps say which function
  numbers.attention_bias = numbers.output_bias = numbers.feed_forward_bias = bias;
  for (Steps& block : blueprint.blocks) {
    for (Step& step : block) {
      if (step.name == "activation") step.name = "relu";
    }
  }
  blueprint.is_trained = true;
}

}  // namespace

/// Positions start at the third row of their table.
Blueprint read_opt(Keys& keys) {
  keys.need({"hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_dim", "vocab_size"});
  Sizes sizes = read_sizes(keys, {50272, 768, 0, 12, 12, 0, 0, 2048}, Unread::heads_and_width);
  sizes.inner = keys.count("ffn_dim", 3072);
  Blueprint blueprint = start(keys, sizes, true, shifting);
  const bool trains_norms = keys.flag("layer_norm_elementwise_affine", true);
  const NormWeights weights = trains_norms ? shifting : NormWeights::none;
  const bool first = keys.flag("do_layer_norm_before", true);
  const bool without_last = keys.flag("_remove_final_layer_norm", false);
  const bool bias = keys.flag("enable_bias", true);
  const std::int64_t width = keys.count("word_embed_proj_dim", sizes.hidden);
  const std::string activation = keys.word("activation_function", "relu");
  blueprint.embedding.front().outputs = width;
  if (width != sizes.hidden)
    blueprint.embedding.push_back(product("embedding projection", sizes.hidden, width));
  blueprint.embedding.push_back(lookup("positions", sizes.positions + 2, sizes.hidden));
  blueprint.numbers.position = Transformer::Position::learned;
  blueprint.last.clear();
  if (first && !without_last) blueprint.last = {norm("last norm", sizes.hidden, weights)};
  if (width != sizes.hidden)
    blueprint.last.push_back(product("head projection", width, sizes.hidden));
  blueprint.head_width = width;
  fill(blueprint, sizes.blocks,
       classic_block({.attention = grouped(sizes, bias),
                      .inner = sizes.inner,
                      .feed_forward_bias = bias,
                      .norm_weights = weights}));
  if (activation == "relu" && first && !without_last && trains_norms && width == sizes.hidden)
    set_opt_numbers(blueprint, bias);
  return blueprint;
}

namespace {

/// Sizes under names of their own; defaults without an inner width have four times the hidden one.
Sizes read_named_sizes(Keys& keys, std::string_view hidden, std::string_view blocks,
                       std::string_view heads, const Defaults& defaults) {
  keys.need({std::string(hidden), std::string(blocks), std::string(heads), "vocab_size"});
  Sizes sizes;
  sizes.hidden = keys.count(hidden, defaults.hidden);
  sizes.blocks = read_blocks(keys, blocks, defaults.blocks);
  sizes.heads = sizes.key_value_heads = keys.count(heads, defaults.heads);
  if (sizes.hidden % sizes.heads != 0) {
    keys.fail(heads, concat(sizes.heads, " heads do not divide ", split(hidden, '|').front(), " = ",
                            sizes.hidden));
  }
  sizes.head_width = sizes.hidden / sizes.heads;
  sizes.inner = defaults.inner > 0 ? defaults.inner : 4 * sizes.hidden;
  sizes.vocabulary = keys.count("vocab_size", defaults.vocabulary);
  return sizes;
}

}  // namespace

/// No biases at all; scores have ALiBi's.
Blueprint read_mpt(Keys& keys) {
  Sizes sizes = read_named_sizes(keys, "d_model|hidden_size", "n_layers|num_hidden_layers",
                                 "n_heads|num_attention_heads", {50368, 2048, 0, 24, 16});
  sizes.positions = keys.count("max_seq_len|max_position_embeddings", 2048);
  if (keys.has("attn_config")) {
    Keys attending(keys.at("attn_config"), true);
    attending.only("attn_type", {"multihead_attention"});
    attending.same("qk_ln", false);
    attending.same("alibi", true);
    attending.ignore(
        {"attn_impl", "softmax_scale", "prefix_lm", "attn_uses_sequence_id", "alibi_bias_max"});
    attending.refuse_unread("mpt");
  }
  keys.same("no_bias", true);
  keys.same("expansion_ratio", std::int64_t{4});
  keys.ignore({"init_config", "init_device", "embedding_fraction", "norm_type", "tokenizer_name",
               "verbose", "learned_pos_emb"});
  Blueprint blueprint = start(keys, sizes, true);
  blueprint.numbers.position = Transformer::Position::none;
  fill(blueprint, sizes.blocks,
       classic_block({.attention = grouped(sizes, false),
                      .inner = sizes.inner,
                      .feed_forward_bias = false,
                      .norm_weights = NormWeights::weight}));
  return blueprint;
}

namespace {

/// "global" and "local" for each block: a list of them, or patterns and how often each repeats.
std::vector<std::string> gpt_neo_words(Keys& keys, int blocks) {
  std::vector<std::string> words;
  if (keys.has("attention_types")) {
    for (const Json& item : keys.at("attention_types").elements()) {
      const std::vector<Json> pair = item.elements();
      if (pair.size() != 2) item.fail("expected a list of words and how often it repeats");
      for (std::int64_t times = pair[1].integer(1, most_config_blocks); times > 0; --times) {
        for (const Json& word : pair[0].elements()) words.push_back(word.string());
      }
    }
    keys.ignore({"attention_layers"});
  } else {
    words = keys.words("attention_layers");
  }
  if (words.empty()) {
    for (int block = 0; block < blocks; ++block)
      words.emplace_back(block % 2 == 0 ? "global" : "local");
  }
  if (std::cmp_not_equal(words.size(), blocks)) {
    keys.fail("attention_types|attention_layers",
              concat("expected \"global\" or \"local\" for each of the ", blocks, " layers, found ",
                     words.size()));
  }
  for (const std::string& word : words) {
    if (word != "global" && word != "local") {
      keys.fail("attention_types|attention_layers",
                concat("\"", word, "\" is not known here; known: global, local"));
    }
  }
  return words;
}

}  // namespace

Blueprint read_gpt_neo(Keys& keys) {
  Sizes sizes = read_named_sizes(keys, "hidden_size", "num_layers|num_hidden_layers",
                                 "num_heads|num_attention_heads", {50257, 2048, 0, 24, 16});
  sizes.inner = keys.count("intermediate_size", sizes.inner);
  sizes.positions = keys.count("max_position_embeddings", 2048);
  const std::int64_t window = keys.count("window_size", 256);
  Blueprint blueprint = start(keys, sizes, true, shifting);
  add_positions(blueprint, sizes.positions);
  GroupedAttention shape = grouped(sizes, false);
  shape.output_bias = true;
  for (const std::string& word : gpt_neo_words(keys, sizes.blocks)) {
    shape.window = word == "local" ? window : 0;
    blueprint.blocks.push_back(classic_block({.attention = shape, .inner = sizes.inner}));
  }
  return blueprint;
}

/// Positions are computed.
Blueprint read_xglm(Keys& keys) {
  keys.refuse_true("add_cross_attention", "blocks with cross-attention are not known here");
  Sizes sizes = read_named_sizes(keys, "d_model|hidden_size", "num_layers|num_hidden_layers",
                                 "attention_heads|num_attention_heads", {256008, 1024, 0, 24, 16});
  sizes.inner = keys.count("ffn_dim", 4096);
  sizes.positions = keys.count("max_position_embeddings", 2048);
  keys.ignore({"scale_embedding"});
  Blueprint blueprint = start(keys, sizes, true, shifting);
  blueprint.numbers.position = Transformer::Position::none;
  fill(blueprint, sizes.blocks,
       classic_block({.attention = grouped(sizes, true), .inner = sizes.inner}));
  return blueprint;
}

/// Positions start at the third row of their table.
Blueprint read_biogpt(Keys& keys) {
  keys.need({"intermediate_size"});
  const Sizes sizes =
      read_sizes(keys, {42384, 1024, 4096, 24, 16, 0, 0, 1024}, Unread::heads_and_width);
  keys.ignore({"scale_embedding", "attention_probs_dropout_prob"});
  Blueprint blueprint = start(keys, sizes, true, shifting);
  add_positions(blueprint, sizes.positions + 2);
  fill(blueprint, sizes.blocks,
       classic_block({.attention = grouped(sizes, true), .inner = sizes.inner}));
  return blueprint;
}

/// One bias of the attention's output, in the last block.
Blueprint read_gpt_neox_japanese(Keys& keys) {
  Sizes sizes = read_sizes(keys, {32000, 2560, 0, 32, 32, 0, 0, 2048}, Unread::heads_and_width);
  sizes.inner = keys.count("intermediate_multiple_size", 4) * sizes.hidden;
  keys.ignore({"intermediate_size"});
  Blueprint blueprint = start(keys, sizes, true, shifting);
  GroupedAttention shape = grouped(sizes, false);
  shape.rotary_width = rotary_width(keys, sizes.head_width);
  const ClassicShape block{.attention = shape, .inner = sizes.inner, .feed_forward_bias = false};
  fill(blueprint, sizes.blocks, classic_block(block));
  shape.output_bias = true;
  blueprint.blocks.back() =
      classic_block({.attention = shape, .inner = sizes.inner, .feed_forward_bias = false});
  return blueprint;
}

Blueprint read_phi(Keys& keys) {
  keys.need({"intermediate_size"});
  const Sizes sizes = read_sizes(keys, {51200, 2048, 8192, 24, 32, 0, 0, 2048});
  Blueprint blueprint = start(keys, sizes, false, shifting);
  GroupedAttention shape = grouped(sizes, true);
  if (keys.flag("qk_layernorm", false)) {
    // The norms are of hidden / heads numbers, whatever "head_dim" says.
    if (sizes.head_width != sizes.hidden / sizes.heads) require_heads_of_hidden(keys, sizes);
    shape.norms = QueryKeyNorm::shared;
    shape.norm_weights = shifting;
  }
  shape.rotary_width = rotary_width(keys, sizes.head_width, 0.5);
  blueprint.head_bias = true;
  fill(blueprint, sizes.blocks,
       classic_block({.attention = shape, .inner = sizes.inner, .norms = 1}));
  return blueprint;
}

Blueprint read_stablelm(Keys& keys) {
  keys.need({"intermediate_size"});
  const Sizes sizes =
      read_sizes(keys, {50304, 2560, 6912, 32, 32, 32, 0, 4096}, Unread::head_width);
  Blueprint blueprint = start(keys, sizes, false, shifting);
  GroupedAttention shape = grouped(sizes, keys.flag("use_qkv_bias", false));
  shape.output_bias = false;
  if (keys.flag("qk_layernorm", false)) shape.norms = QueryKeyNorm::each;
  shape.rotary_width = rotary_width(keys, sizes.head_width, 0.25);
  Steps block{norm("first norm", sizes.hidden, shifting)};
  add_steps(block, attention(shape));
  if (!keys.flag("use_parallel_residual", false))
    block.push_back(norm("second norm", sizes.hidden, shifting));
  add_steps(block, feed_forward({.hidden = sizes.hidden, .inner = sizes.inner}));
  fill(blueprint, sizes.blocks, block);
  return blueprint;
}

}  // namespace stagecraft
