// Families before and beside Llama's: GPT-2 and what followed it, encoders, and T5.

#include <algorithm>
#include <cmath>

#include "profiles/error.hpp"
#include "profiles/importers/families/families.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr auto shifting = NormWeights::weight_and_bias;

Step lookup(std::string_view name, std::int64_t rows, std::int64_t width) {
  return {.kind = StepKind::lookup, .name = name, .outputs = width, .inputs = rows};
}

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

GroupedAttention classic_attention(const Sizes& sizes, bool bias) {
  return {.hidden = sizes.hidden,
          .heads = sizes.heads,
          .key_value_heads = sizes.key_value_heads,
          .width = sizes.head_width,
          .query_bias = bias,
          .key_bias = bias,
          .value_bias = bias,
          .output_bias = bias};
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

/// Learned positions are looked up beside words.
void add_positions(Blueprint& blueprint, std::int64_t rows) {
  blueprint.numbers.position = Transformer::Position::learned;
  blueprint.embedding.push_back(lookup("positions", rows, blueprint.numbers.hidden));
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
       classic_block({.attention = classic_attention(sizes, true), .inner = sizes.inner}));
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
       classic_block({.attention = classic_attention(sizes, true), .inner = sizes.inner}));
  keys.ignore({"scale_attn_weights", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32",
               "num_key_value_heads", "attention_head_type", "inference_runner", "max_batch_size",
               "max_sequence_length", "pad_key_length", "pre_allocate_kv_cache",
               "validate_runner_input"});
  return blueprint;
}

/// One norm before attention and feed-forward, which are added up.
Blueprint read_gptj(Keys& keys) {
  const Sizes sizes = read_gpt_sizes(keys, {50400, 4096, 0, 28, 16, 0, 0, 2048});
  Blueprint blueprint = start(keys, sizes, false, shifting);
  GroupedAttention shape = classic_attention(sizes, false);
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
  const Sizes sizes = read_sizes(keys, {50432, 6144, 24576, 44, 64, 0, 0, 2048});
  Blueprint blueprint = start(keys, sizes, false, shifting);
  GroupedAttention shape = classic_attention(sizes, keys.flag("attention_bias", true));
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
       classic_block({.attention = classic_attention(sizes, true), .inner = sizes.inner}));
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
  GroupedAttention shape = classic_attention(sizes, bias);
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
  Sizes sizes = read_sizes(keys, {50272, 768, 0, 12, 12, 0, 0, 2048});
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
       classic_block({.attention = classic_attention(sizes, bias),
                      .inner = sizes.inner,
                      .feed_forward_bias = bias,
                      .norm_weights = weights}));
  if (activation == "relu" && first && !without_last && trains_norms && width == sizes.hidden)
    set_opt_numbers(blueprint, bias);
  return blueprint;
}

Blueprint read_phi(Keys& keys) {
  keys.need({"intermediate_size"});
  const Sizes sizes = read_sizes(keys, {51200, 2048, 8192, 24, 32, 0, 0, 2048});
  Blueprint blueprint = start(keys, sizes, false, shifting);
  GroupedAttention shape = classic_attention(sizes, true);
  if (keys.flag("qk_layernorm", false)) {
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
  const Sizes sizes = read_sizes(keys, {50304, 2560, 6912, 32, 32, 32, 0, 4096});
  Blueprint blueprint = start(keys, sizes, false, shifting);
  GroupedAttention shape = classic_attention(sizes, keys.flag("use_qkv_bias", false));
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

namespace {

/// Norms stand behind attention and feed-forward, and behind the embedding.
Steps bert_block(const GroupedAttention& shape, std::int64_t inner) {
  Steps steps = attention(shape);
  steps.push_back(norm("first norm", shape.hidden, shifting));
  add_steps(steps, feed_forward({.hidden = shape.hidden,
                                 .inner = inner,
                                 .gated = false,
                                 .up_bias = true,
                                 .down_bias = true}));
  steps.push_back(norm("second norm", shape.hidden, shifting));
  return steps;
}

Step pooling(std::int64_t outputs, std::int64_t inputs) {
  Step step = product("pooler", outputs, inputs, true);
  step.of_sample = true;
  return step;
}

}  // namespace

Blueprint read_bert(Keys& keys) {
  keys.need({"intermediate_size", "max_position_embeddings"});
  keys.refuse_true("add_cross_attention", "blocks with cross-attention are not known here");
  const Sizes sizes = read_sizes(keys, {30522, 768, 3072, 12, 12, 0, 0, 512});
  Blueprint blueprint = start(keys, sizes, true, shifting);
  Transformer& numbers = blueprint.numbers;
  numbers.causal = keys.flag("is_decoder", false);
  add_positions(blueprint, sizes.positions);
  blueprint.embedding.push_back(
      lookup("token types", keys.count("type_vocab_size", 2), sizes.hidden));
  blueprint.embedding.push_back(norm("embedding norm", sizes.hidden, shifting));
  blueprint.last.clear();
  GroupedAttention shape = classic_attention(sizes, true);
  shape.causal = numbers.causal;
  fill(blueprint, sizes.blocks, bert_block(shape, sizes.inner));
  blueprint.pooler = {pooling(sizes.hidden, sizes.hidden)};
  blueprint.transform = {product("transform", sizes.hidden, sizes.hidden, true),
                         norm("last norm", sizes.hidden, shifting)};
  // Where the words are not the head, the library keeps its bias twice.
  if (!numbers.tied_head)
    blueprint.transform.push_back(stagecraft::numbers("transform", sizes.vocabulary));
  blueprint.pools_alone = true;
  blueprint.spans_of_labels = true;
  blueprint.head_bias = true;
  blueprint.classes_bias = true;
  keys.ignore({"position_embedding_type", "attention_probs_dropout_prob", "pooler_fc_size",
               "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
               "pooler_type", "directionality"});
  return blueprint;
}

Blueprint read_vit(Keys& keys) {
  keys.need({"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
             "image_size", "patch_size"});
  Sizes sizes;
  sizes.hidden = keys.count("hidden_size", 768);
  sizes.blocks = read_blocks(keys, "num_hidden_layers", 12);
  sizes.heads = sizes.key_value_heads = keys.count("num_attention_heads", 12);
  if (sizes.hidden % sizes.heads != 0)
    keys.fail("num_attention_heads",
              concat(sizes.heads, " heads do not divide hidden_size = ", sizes.hidden));
  sizes.head_width = sizes.hidden / sizes.heads;
  sizes.inner = keys.count("intermediate_size", 3072);
  const std::int64_t image = keys.count("image_size", 224);
  const std::int64_t patch = keys.count("patch_size", 16);
  const std::int64_t channels = keys.count("num_channels", 3);
  if (patch > image)
    keys.fail("patch_size",
              concat("a patch of ", patch, " pixels is larger than the image of ", image));
  const std::int64_t tokens = (image / patch) * (image / patch) + 1;
  sizes.positions = tokens;
  sizes.vocabulary = 1;
  Blueprint blueprint = start(keys, sizes, false, shifting);
  blueprint.numbers.causal = false;
  blueprint.numbers.position = Transformer::Position::learned;
  blueprint.numbers.patches =
      Patches{.image = image, .patch = patch, .channels = channels, .classes = 1};
  blueprint.embedding = {product("patches", sizes.hidden, patch * patch * channels, true),
                         numbers("class token", sizes.hidden),
                         lookup("positions", tokens, sizes.hidden)};
  GroupedAttention shape = classic_attention(sizes, keys.flag("qkv_bias", true));
  shape.output_bias = true;
  shape.causal = false;
  fill(blueprint, sizes.blocks, classic_block({.attention = shape, .inner = sizes.inner}));
  blueprint.pooler = {pooling(keys.count("pooler_output_size", sizes.hidden), sizes.hidden)};
  blueprint.classes_bias = true;
  blueprint.pools_alone = true;
  blueprint.names_images = true;
  keys.ignore({"encoder_stride", "pooler_act", "attention_probs_dropout_prob"});
  return blueprint;
}

/// An encoder and a decoder that also attends to the encoder's states; positions are biases of
/// scores, from a table in the first block of each.
Blueprint read_t5(Keys& keys) {
  keys.need({"d_model|hidden_size", "num_layers|num_hidden_layers", "num_heads|num_attention_heads",
             "d_kv|head_dim", "d_ff", "vocab_size"});
  Sizes sizes;
  sizes.hidden = keys.count("d_model|hidden_size", 512);
  sizes.blocks = read_blocks(keys, "num_layers|num_hidden_layers", 6);
  sizes.heads = sizes.key_value_heads = keys.count("num_heads|num_attention_heads", 8);
  sizes.head_width = keys.count("d_kv|head_dim", 64);
  sizes.inner = keys.count("d_ff", 2048);
  sizes.vocabulary = keys.count("vocab_size", 32128);
  sizes.positions = keys.count("n_positions", 512);
  const int decoders = read_blocks(keys, "num_decoder_layers", sizes.blocks);
  const std::int64_t buckets = keys.count("relative_attention_num_buckets", 32);
  const std::string projection = keys.word("feed_forward_proj", "relu");
  // The class derives both words from the first, and then takes them from the file where they
  // stand.
  const bool gated = keys.flag("is_gated_act", projection.starts_with("gated-"));
  keys.ignore({"relative_attention_max_distance", "dense_act_fn", "scale_decoder_outputs",
               "num_hidden_layers"});
  Blueprint blueprint = start(keys, sizes, true);
  // The class of the library ties in any case, and scales its states where the file says not to.
  blueprint.numbers.tied_head = true;
  blueprint.numbers.position = Transformer::Position::none;
  GroupedAttention shape = classic_attention(sizes, false);
  const Steps feeding =
      feed_forward({.hidden = sizes.hidden, .inner = sizes.inner, .gated = gated});
  const auto block = [&](bool decodes, bool first) {
    Steps steps{norm("first norm", sizes.hidden)};
    shape.causal = decodes;
    shape.crosses = false;
    add_steps(steps, attention(shape));
    if (first) steps.push_back(numbers("position biases", buckets * sizes.heads));
    if (decodes) {
      steps.push_back(norm("second norm", sizes.hidden));
      shape.crosses = true;
      add_steps(steps, attention(shape));
    }
    steps.push_back(norm("third norm", sizes.hidden));
    add_steps(steps, feeding);
    return steps;
  };
  for (int i = 0; i < sizes.blocks; ++i) blueprint.encoder.push_back(block(false, i == 0));
  for (int i = 0; i < decoders; ++i) blueprint.blocks.push_back(block(true, i == 0));
  blueprint.encoder_last = {norm("last norm", sizes.hidden)};
  blueprint.spans_of_labels = true;
  blueprint.classes_bias = true;
  blueprint.pooler = {pooling(sizes.hidden, sizes.hidden)};
  return blueprint;
}

}  // namespace stagecraft
