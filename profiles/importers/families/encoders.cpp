// Encoders of texts and of images: BERT and its relatives, ModernBERT and ViT.

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/importers/families/encoders.hpp"
#include "profiles/importers/families/families.hpp"

namespace stagecraft {

Steps bert_block(const GroupedAttention& shape, std::int64_t inner, bool norms_before) {
  const Steps feeding = feed_forward(
      {.hidden = shape.hidden, .inner = inner, .gated = false, .up_bias = true, .down_bias = true});
  Steps steps;
  if (norms_before) steps.push_back(norm("first norm", shape.hidden, with_shift));
  add_steps(steps, attention(shape));
  steps.push_back(norm(norms_before ? "second norm" : "first norm", shape.hidden, with_shift));
  add_steps(steps, feeding);
  if (!norms_before) steps.push_back(norm("second norm", shape.hidden, with_shift));
  return steps;
}

void add_bert_heads(Blueprint& blueprint, bool bias_twice) {
  const std::int64_t hidden = blueprint.numbers.hidden;
  blueprint.pooler = {pooling(hidden, hidden)};
  blueprint.transform = {product("transform", hidden, hidden, true),
                         norm("last norm", hidden, with_shift)};
  if (bias_twice && !blueprint.numbers.tied_head)
    blueprint.transform.push_back(numbers("transform", blueprint.numbers.vocabulary));
  blueprint.spans_of_labels = true;
  blueprint.head_bias = true;
  blueprint.classes_bias = true;
}

Blueprint read_bert_family(Keys& keys, const BertRow& row) {
  keys.need({"intermediate_size", "max_position_embeddings"});
  keys.refuse_true("add_cross_attention", "blocks with cross-attention are not known here");
  const Sizes sizes = read_sizes(keys, row.sizes, Unread::heads_and_width);
  Blueprint blueprint = start(keys, sizes, true, with_shift);
  Transformer& numbers = blueprint.numbers;
  numbers.causal = keys.flag("is_decoder", false);
  add_positions(blueprint, sizes.positions);
  const std::int64_t pads = row.pads_positions ? keys.natural("pad_token_id", 1) + 1 : 0;
  numbers.positions = std::max<std::int64_t>(sizes.positions - pads, 1);
  if (row.token_types > 0) {
    blueprint.embedding.push_back(
        lookup("token types", keys.count("type_vocab_size", row.token_types), sizes.hidden));
  }
  if (row.norms_words)
    blueprint.embedding.push_back(norm("embedding norm", sizes.hidden, with_shift));
  if (!row.norms_before) blueprint.last.clear();
  GroupedAttention shape = grouped(sizes, true);
  shape.causal = numbers.causal;
  blueprint.blocks.assign(static_cast<std::size_t>(sizes.blocks),
                          bert_block(shape, sizes.inner, row.norms_before));
  add_bert_heads(blueprint, row.bias_twice);
  blueprint.pools_alone = true;
  keys.ignore({"position_embedding_type", "attention_probs_dropout_prob", "pooler_fc_size",
               "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
               "pooler_type", "directionality"});
  return blueprint;
}

Blueprint read_bert(Keys& keys) {
  return read_bert_family(keys, {.sizes = base_sizes(30522), .bias_twice = true});
}

Blueprint read_roberta(Keys& keys) {
  return read_bert_family(keys,
                          {.sizes = base_sizes(50265), .pads_positions = true, .bias_twice = true});
}

Blueprint read_xlm_roberta(Keys& keys) {
  return read_bert_family(keys,
                          {.sizes = base_sizes(30522), .pads_positions = true, .bias_twice = true});
}

Blueprint read_roberta_prelayernorm(Keys& keys) {
  return read_bert_family(keys, {.sizes = base_sizes(50265),
                                 .norms_before = true,
                                 .pads_positions = true,
                                 .bias_twice = true});
}

Blueprint read_xlm_roberta_xl(Keys& keys) {
  return read_bert_family(keys, {.sizes = {250880, 2560, 10240, 36, 32, 0, 0, 514},
                                 .token_types = 1,
                                 .norms_before = true,
                                 .norms_words = false,
                                 .pads_positions = true,
                                 .bias_twice = true});
}

Blueprint read_megatron_bert(Keys& keys) {
  return read_bert_family(keys, {.sizes = {29056, 1024, 4096, 24, 16, 0, 0, 512},
                                 .norms_before = true,
                                 .norms_words = false,
                                 .bias_twice = true});
}

/// Texts have kinds of tasks, too, where the file says so.
Blueprint read_ernie(Keys& keys) {
  Blueprint blueprint = read_bert_family(keys, {.sizes = base_sizes(30522), .bias_twice = true});
  const std::int64_t tasks = keys.count("task_type_vocab_size", 3);
  if (keys.flag("use_task_id", false)) {
    blueprint.embedding.insert(blueprint.embedding.end() - 1,
                               lookup("token types", tasks, blueprint.numbers.hidden));
  }
  return blueprint;
}

/// Words narrower than states; one dense layer before the classes of a sequence.
Blueprint read_electra(Keys& keys) {
  keys.need({"embedding_size"});
  Blueprint blueprint = read_bert_family(keys, {.sizes = {30522, 256, 1024, 12, 4, 0, 0, 512}});
  const std::int64_t hidden = blueprint.numbers.hidden;
  const std::int64_t width = keys.count("embedding_size", 128);
  for (Step& step : blueprint.embedding)
    step = step.kind == StepKind::norm ? norm(step.name, width, with_shift)
                                       : lookup(step.name, step.inputs, width, step.split);
  if (width != hidden)
    blueprint.embedding.push_back(product("embedding projection", hidden, width, true));
  blueprint.transform = {product("transform", width, hidden, true),
                         norm("last norm", width, with_shift)};
  blueprint.words_width = width;
  blueprint.pools_alone = false;
  return blueprint;
}

/// Names of its own, no kinds of texts, and one dense layer before the classes of a sequence.
Blueprint read_distilbert(Keys& keys) {
  keys.need({"dim|hidden_size", "n_layers|num_hidden_layers", "n_heads|num_attention_heads",
             "hidden_dim", "vocab_size", "max_position_embeddings"});
  Sizes sizes{.vocabulary = keys.count("vocab_size", 30522),
              .hidden = keys.count("dim|hidden_size", 768),
              .inner = keys.count("hidden_dim", 3072),
              .heads = keys.count("n_heads|num_attention_heads", 12),
              .positions = keys.count("max_position_embeddings", 512),
              .blocks = read_blocks(keys, "n_layers|num_hidden_layers", 6)};
  if (sizes.hidden % sizes.heads != 0) {
    keys.fail("n_heads|num_attention_heads",
              concat(sizes.heads, " heads do not divide dim = ", sizes.hidden));
  }
  sizes.key_value_heads = sizes.heads;
  sizes.head_width = sizes.hidden / sizes.heads;
  keys.ignore({"activation", "sinusoidal_pos_embds", "tie_weights_"});
  Blueprint blueprint = start(keys, sizes, true, with_shift);
  blueprint.numbers.causal = false;
  add_positions(blueprint, sizes.positions);
  blueprint.embedding.push_back(norm("embedding norm", sizes.hidden, with_shift));
  blueprint.last.clear();
  GroupedAttention shape = grouped(sizes, true);
  shape.causal = false;
  blueprint.blocks.assign(static_cast<std::size_t>(sizes.blocks),
                          bert_block(shape, sizes.inner, false));
  add_bert_heads(blueprint, false);
  return blueprint;
}

namespace {

/// Positions behind the row of the padding token, and one table of their distances for all blocks.
constexpr BertRow mpnet_row{
    .sizes = base_sizes(30527), .token_types = 0, .pads_positions = true, .bias_twice = true};

}  // namespace

Blueprint read_mpnet(Keys& keys) {
  Blueprint blueprint = read_bert_family(keys, mpnet_row);
  const std::int64_t buckets = keys.count("relative_attention_num_buckets", 32);
  blueprint.embedding.push_back(numbers("position biases", buckets * blueprint.numbers.heads));
  return blueprint;
}

namespace {

/// BERT's relatives whose positions turn queries and keys.
struct TurnedRow {
  Defaults sizes;
  std::int64_t token_types = 1;
  bool bias = true;         ///< of attention
  bool gated = true;        ///< of the feed-forward
  bool up_bias = false;     ///< of its way up
  bool down_bias = true;    ///< and down
  bool pools_alone = true;  ///< the base model has the pooler, too
  bool bias_twice = true;   ///< as of `BertRow`
  Unread unread = Unread::heads_and_width;
};

Blueprint read_turned_family(Keys& keys, const TurnedRow& row) {
  keys.need({"intermediate_size", "max_position_embeddings"});
  const Sizes sizes = read_sizes(keys, row.sizes, row.unread);
  Blueprint blueprint = start(keys, sizes, true, with_shift);
  blueprint.numbers.causal = false;
  blueprint.last.clear();
  if (const std::int64_t types = keys.natural("type_vocab_size", row.token_types); types > 0)
    blueprint.embedding.push_back(lookup("token types", types, sizes.hidden));
  blueprint.embedding.push_back(norm("embedding norm", sizes.hidden, with_shift));
  GroupedAttention shape = grouped(sizes, row.bias);
  shape.rotary_width = rotary_width(keys, sizes.head_width);
  shape.causal = false;
  Steps block = attention(shape);
  block.push_back(norm("first norm", sizes.hidden, with_shift));
  add_steps(block, feed_forward({.hidden = sizes.hidden,
                                 .inner = sizes.inner,
                                 .gated = row.gated,
                                 .up_bias = row.up_bias,
                                 .down_bias = row.down_bias}));
  block.push_back(norm("second norm", sizes.hidden, with_shift));
  blueprint.blocks.assign(static_cast<std::size_t>(sizes.blocks), block);
  add_bert_heads(blueprint, row.bias_twice);
  blueprint.pools_alone = row.pools_alone;
  keys.ignore({"position_embedding_type", "attention_probs_dropout_prob", "is_decoder"});
  return blueprint;
}

}  // namespace

Blueprint read_nomic_bert(Keys& keys) {
  return read_turned_family(keys, {.sizes = {30528, 768, 3072, 12, 12, 0, 0, 2048},
                                   .token_types = 2,
                                   .bias = false,
                                   .down_bias = false,
                                   .unread = Unread::none});
}

Blueprint read_gte(Keys& keys) {
  return read_turned_family(
      keys, {.sizes = {250048, 768, 3072, 12, 12, 0, 0, 8192}, .bias_twice = false});
}

Blueprint read_jina_embeddings_v3(Keys& keys) {
  return read_turned_family(
      keys, {.sizes = {250002, 1024, 4096, 24, 16, 0, 0, 8194}, .gated = false, .up_bias = true});
}

/// Llama's blocks that look both ways.
Blueprint read_eurobert(Keys& keys) {
  keys.need({"intermediate_size"});
  const Sizes sizes = read_sizes(keys, {128256, 768, 3072, 12, 12, 0, 0, 8192});
  Blueprint blueprint = start(keys, sizes, false);
  blueprint.numbers.causal = false;
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  shape.rotary_width = sizes.head_width;
  shape.causal = false;
  const bool bias = keys.flag("mlp_bias", false);
  blueprint.blocks.assign(
      static_cast<std::size_t>(sizes.blocks),
      mixed_block(
          sizes.hidden, attention(shape),
          feed_forward(
              {.hidden = sizes.hidden, .inner = sizes.inner, .up_bias = bias, .down_bias = bias})));
  blueprint.head_bias = bias;
  blueprint.pooler = {pooling(sizes.hidden, sizes.hidden)};
  blueprint.classes_bias = true;
  keys.ignore({"classifier_pooling", "mask_token_id", "clip_qkv"});
  return blueprint;
}

namespace {

/// Blocks without a first norm in the first of them, since words have one; windows in two of three.
Blueprint read_modernbert_family(Keys& keys, bool causal) {
  const Sizes sizes =
      read_sizes(keys, {50368, 768, 1152, 22, 12, 0, 0, 8192}, Unread::heads_and_width);
  const NormWeights weights = keys.flag("norm_bias", false) ? with_shift : NormWeights::weight;
  Blueprint blueprint = start(keys, sizes, true, weights);
  blueprint.numbers.causal = causal;
  blueprint.embedding.push_back(norm("embedding norm", sizes.hidden, weights));
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  shape.rotary_width = sizes.head_width;
  shape.causal = causal;
  // Half of "local_attention" on each side of a token, and the token.
  const std::int64_t half = keys.count(
      "sliding_window", std::max<std::int64_t>(keys.count("local_attention", 128) / 2, 1));
  const std::int64_t window = causal ? half : 2 * half + 1;
  const std::int64_t every = keys.count("global_attn_every_n_layers", 3);
  const bool bias = keys.flag("mlp_bias", false);
  const Steps feeding = feed_forward(
      {.hidden = sizes.hidden, .inner = sizes.inner, .up_bias = bias, .down_bias = bias});
  for (const std::string& word :
       words_of_blocks(keys, "layer_types", sizes.blocks, {attends, windowed},
                       [&](int block) { return block % every != 0 ? windowed : attends; })) {
    shape.window = word == windowed ? window : 0;
    Steps block;
    if (!blueprint.blocks.empty()) block.push_back(norm("first norm", sizes.hidden, weights));
    add_steps(block, attention(shape));
    block.push_back(norm("second norm", sizes.hidden, weights));
    add_steps(block, feeding);
    blueprint.blocks.push_back(block);
  }
  const bool head_bias = keys.flag("classifier_bias", false);
  Step last = norm("last norm", sizes.hidden, weights);
  blueprint.transform = {product("transform", sizes.hidden, sizes.hidden, head_bias), last};
  last.of_sample = true;
  blueprint.pooler = {pooling(sizes.hidden, sizes.hidden, head_bias), last};
  blueprint.transforms_tokens = true;
  blueprint.head_bias = keys.flag("decoder_bias", true);
  blueprint.classes_bias = !causal || head_bias;
  blueprint.spans_of_labels = true;
  keys.ignore({"initializer_cutoff_factor", "classifier_activation", "classifier_pooling",
               "deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index",
               "reference_compile", "repad_logits_with_grad", "position_embedding_type"});
  return blueprint;
}

}  // namespace

Blueprint read_modernbert(Keys& keys) {
  return read_modernbert_family(keys, false);
}

Blueprint read_modernbert_decoder(Keys& keys) {
  return read_modernbert_family(keys, true);
}

Blueprint read_vit(Keys& keys) {
  keys.need({"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
             "image_size", "patch_size"});
  Sizes sizes;
  sizes.hidden = keys.count("hidden_size", 768);
  sizes.blocks = read_blocks(keys, "num_hidden_layers", 12);
  sizes.heads = sizes.key_value_heads = keys.count("num_attention_heads", 12);
  if (!keys.has("head_dim") && sizes.hidden % sizes.heads != 0)
    keys.fail("num_attention_heads",
              concat(sizes.heads, " heads do not divide hidden_size = ", sizes.hidden));
  sizes.head_width = keys.count("head_dim", sizes.hidden / sizes.heads);
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
  Blueprint blueprint = start(keys, sizes, false, with_shift);
  blueprint.numbers.causal = false;
  blueprint.numbers.position = Transformer::Position::learned;
  blueprint.numbers.patches =
      Patches{.image = image, .patch = patch, .channels = channels, .classes = 1};
  blueprint.embedding = {product("patches", sizes.hidden, patch * patch * channels, true),
                         numbers("class token", sizes.hidden),
                         lookup("positions", tokens, sizes.hidden)};
  GroupedAttention shape = grouped(sizes, keys.flag("qkv_bias", true));
  shape.output_bias = true;
  shape.causal = false;
  blueprint.blocks.assign(static_cast<std::size_t>(sizes.blocks),
                          bert_block(shape, sizes.inner, true));
  blueprint.pooler = {pooling(keys.count("pooler_output_size", sizes.hidden), sizes.hidden)};
  blueprint.classes_bias = true;
  blueprint.pools_alone = true;
  blueprint.names_images = true;
  keys.ignore({"encoder_stride", "pooler_act", "attention_probs_dropout_prob"});
  return blueprint;
}

}  // namespace stagecraft
