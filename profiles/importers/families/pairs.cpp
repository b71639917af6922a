// Encoders and decoders side by side: T5's family, and BART's.

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/importers/families/families.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr auto with_shifts = NormWeights::weight_and_bias;

/// Defaults of the family's class, and what it does differently.
struct T5Row {
  std::int64_t vocabulary = 32128, inner = 2048, heads = 8;
  int blocks = 6;
  std::string_view projection = "relu";
  bool biases_in_all = false;  ///< each block has a table of position biases, not the first alone
};

/// An encoder and a decoder that also attends to the encoder's states; positions are biases of
/// scores, from tables.
Blueprint read_t5_family(Keys& keys, const T5Row& row) {
  keys.need({"d_model|hidden_size", "num_layers|num_hidden_layers", "num_heads|num_attention_heads",
             "d_kv|head_dim", "d_ff", "vocab_size"});
  Sizes sizes;
  sizes.hidden = keys.count("d_model|hidden_size", 512);
  sizes.blocks = read_blocks(keys, "num_layers|num_hidden_layers", row.blocks);
  sizes.heads = sizes.key_value_heads = keys.count("num_heads|num_attention_heads", row.heads);
  sizes.head_width = keys.count("d_kv|head_dim", 64);
  sizes.inner = keys.count("d_ff", row.inner);
  sizes.vocabulary = keys.count("vocab_size", row.vocabulary);
  sizes.positions = keys.count("n_positions", 512);
  const int decoders = read_blocks(keys, "num_decoder_layers", sizes.blocks);
  const std::int64_t buckets = keys.count("relative_attention_num_buckets", 32);
  const std::string projection = keys.word("feed_forward_proj", std::string(row.projection));
  // The class derives both words from the first, and then takes them from the file where they
  // stand.
  const bool gated = keys.flag("is_gated_act", projection.starts_with("gated-"));
  keys.ignore({"relative_attention_max_distance", "dense_act_fn", "scale_decoder_outputs",
               "num_hidden_layers"});
  Blueprint blueprint = start(keys, sizes, true);
  // The class of the library ties in any case, and scales its states where the file says not to.
  blueprint.numbers.tied_head = true;
  blueprint.numbers.position = Transformer::Position::none;
  GroupedAttention shape = grouped(sizes, false);
  const Steps feeding =
      feed_forward({.hidden = sizes.hidden, .inner = sizes.inner, .gated = gated});
  const auto block = [&](bool decodes, bool first) {
    Steps steps{norm("first norm", sizes.hidden)};
    shape.causal = decodes;
    shape.crosses = false;
    add_steps(steps, attention(shape));
    if (first || row.biases_in_all)
      steps.push_back(numbers("position biases", buckets * sizes.heads));
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

}  // namespace

Blueprint read_t5(Keys& keys) {
  return read_t5_family(keys, {});
}

Blueprint read_mt5(Keys& keys) {
  return read_t5_family(
      keys,
      {.vocabulary = 250112, .inner = 1024, .heads = 6, .blocks = 8, .projection = "gated-gelu"});
}

Blueprint read_umt5(Keys& keys) {
  return read_t5_family(keys, {.vocabulary = 250112,
                               .inner = 1024,
                               .heads = 6,
                               .blocks = 8,
                               .projection = "gated-gelu",
                               .biases_in_all = true});
}

namespace {

enum class PairPositions {
  learned,   ///< a table in the encoder and one in the decoder
  stored,    ///< computed once, and kept among the parameters
  computed,  ///< nobody keeps them
};

/// What BART's relatives differ in.
struct BartRow {
  std::int64_t vocabulary = 50265, hidden = 1024, inner = 4096, heads = 16, positions = 1024;
  int encoders = 12, decoders = 12;
  bool norms_before = false;  ///< of attention and feed-forward; then one is last
  bool norms_words = true;    ///< a norm follows words and positions
  PairPositions kind = PairPositions::learned;
  std::int64_t offset = 0;  ///< rows of positions' tables before the first
};

/// One tower: its heads, and how wide its feed-forward is.
struct Tower {
  GroupedAttention attention;
  std::int64_t inner = 0;
  int blocks = 0;
};

Tower read_tower(Keys& keys, const std::string& name, const BartRow& row, std::int64_t hidden,
                 int blocks) {
  const bool encodes = name == "encoder";
  const std::string heads_key = name + "_attention_heads" + (encodes ? "|num_attention_heads" : "");
  const std::int64_t heads = keys.count(heads_key, row.heads);
  if (hidden % heads != 0) {
    keys.fail(heads_key, concat(heads, " heads do not divide d_model = ", hidden));
  }
  return {.attention = {.hidden = hidden,
                        .heads = heads,
                        .key_value_heads = heads,
                        .width = hidden / heads,
                        .query_bias = true,
                        .key_bias = true,
                        .value_bias = true,
                        .output_bias = true,
                        .causal = !encodes},
          .inner = keys.count(name + "_ffn_dim", row.inner),
          .blocks =
              read_blocks(keys, name + "_layers" + (encodes ? "|num_hidden_layers" : ""), blocks)};
}

/// Attention (the decoder's also to what the encoder says) and feed-forward, with norms before or
/// behind each.
Steps tower_block(const Tower& tower, bool norms_before) {
  const std::int64_t hidden = tower.attention.hidden;
  Steps steps;
  const auto add_half = [&](std::string_view name, const Steps& half) {
    const Step each = norm(name, hidden, with_shifts);
    if (norms_before) steps.push_back(each);
    add_steps(steps, half);
    if (!norms_before) steps.push_back(each);
  };
  add_half("first norm", attention(tower.attention));
  if (tower.attention.causal) {
    GroupedAttention crossing = tower.attention;
    crossing.crosses = true;
    add_half("second norm", attention(crossing));
  }
  add_half("third norm", feed_forward({.hidden = hidden,
                                       .inner = tower.inner,
                                       .gated = false,
                                       .up_bias = true,
                                       .down_bias = true}));
  return steps;
}

/// Keys of files before the classes were apart, which none of them reads.
void require_form_of_class(Keys& keys, const BartRow& row) {
  keys.same("normalize_before", row.norms_before);
  keys.same("add_final_layer_norm", row.norms_before);
  keys.same("normalize_embedding", row.norms_words);
  keys.same("static_position_embeddings", row.kind != PairPositions::learned);
  keys.ignore({"encoder_layerdrop", "decoder_layerdrop", "scale_embedding", "add_bias_logits",
               "extra_pos_embeddings", "force_bos_token_to_be_generated", "save_step",
               "do_blenderbot_90_layernorm", "classif_dropout", "gradient_checkpointing",
               "num_hidden_layers", "activation_function"});
}

Blueprint read_bart_family(Keys& keys, const BartRow& row) {
  keys.need({"d_model|hidden_size", "encoder_layers|num_hidden_layers", "decoder_layers",
             "encoder_attention_heads|num_attention_heads", "decoder_attention_heads",
             "encoder_ffn_dim", "decoder_ffn_dim", "vocab_size"});
  const std::int64_t hidden = keys.count("d_model|hidden_size", row.hidden);
  const Tower encoder = read_tower(keys, "encoder", row, hidden, row.encoders);
  const Tower decoder = read_tower(keys, "decoder", row, hidden, row.decoders);
  require_form_of_class(keys, row);
  const Sizes sizes{.vocabulary = keys.count("vocab_size", row.vocabulary),
                    .hidden = hidden,
                    .inner = decoder.inner,
                    .heads = decoder.attention.heads,
                    .key_value_heads = decoder.attention.heads,
                    .head_width = decoder.attention.width,
                    .positions = keys.count("max_position_embeddings", row.positions),
                    .blocks = decoder.blocks};
  Blueprint blueprint = start(keys, sizes, true, with_shifts);
  blueprint.numbers.activation = Transformer::FeedForward::gelu;
  blueprint.numbers.position = Transformer::Position::none;
  if (row.kind != PairPositions::computed) add_positions(blueprint, sizes.positions + row.offset);
  if (row.kind == PairPositions::stored)
    blueprint.notes.push_back(
        "positions are computed and kept among the parameters, as "
        "transformers counts them; none of them is trained");
  if (row.norms_words) blueprint.embedding.push_back(norm("embedding norm", hidden, with_shifts));
  blueprint.decoder_embedding = blueprint.embedding;
  blueprint.encoder.assign(static_cast<std::size_t>(encoder.blocks),
                           tower_block(encoder, row.norms_before));
  blueprint.blocks.assign(static_cast<std::size_t>(decoder.blocks),
                          tower_block(decoder, row.norms_before));
  if (row.norms_before) {
    blueprint.encoder_last = blueprint.last;
  } else {
    blueprint.last.clear();
  }
  blueprint.pooler = {pooling(hidden, hidden)};
  blueprint.classes_bias = true;
  return blueprint;
}

}  // namespace

Blueprint read_bart(Keys& keys) {
  Blueprint blueprint = read_bart_family(keys, {.offset = 2});
  blueprint.classes = 3;
  return blueprint;
}

Blueprint read_mbart(Keys& keys) {
  return read_bart_family(keys, {.norms_before = true, .offset = 2});
}

Blueprint read_plbart(Keys& keys) {
  return read_bart_family(keys, {.vocabulary = 50005,
                                 .hidden = 768,
                                 .inner = 3072,
                                 .heads = 12,
                                 .encoders = 6,
                                 .decoders = 6,
                                 .offset = 2});
}

Blueprint read_mvp(Keys& keys) {
  keys.refuse_true("use_prompt", "blocks with prompts of their own are not known here");
  keys.ignore({"prompt_length", "prompt_mid_dim"});
  return read_bart_family(keys, {.vocabulary = 50267, .offset = 2});
}

Blueprint read_blenderbot(Keys& keys) {
  return read_bart_family(keys, {.vocabulary = 8008,
                                 .hidden = 2560,
                                 .inner = 10240,
                                 .heads = 32,
                                 .positions = 128,
                                 .encoders = 2,
                                 .decoders = 24,
                                 .norms_before = true,
                                 .norms_words = false});
}

Blueprint read_blenderbot_small(Keys& keys) {
  return read_bart_family(
      keys, {.hidden = 512, .inner = 2048, .positions = 512, .encoders = 8, .decoders = 8});
}

Blueprint read_marian(Keys& keys) {
  if (!keys.flag("share_encoder_decoder_embeddings", true)) {
    keys.fail("share_encoder_decoder_embeddings",
              "a vocabulary of the decoder's own is not known here");
  }
  keys.same("decoder_vocab_size", keys.count("vocab_size", 58101));
  return read_bart_family(
      keys, {.vocabulary = 58101, .norms_words = false, .kind = PairPositions::stored});
}

Blueprint read_pegasus(Keys& keys) {
  return read_bart_family(
      keys, {.norms_before = true, .norms_words = false, .kind = PairPositions::stored});
}

/// NLLB's models without experts are of this family, too.
Blueprint read_m2m_100(Keys& keys) {
  return read_bart_family(keys, {.vocabulary = 128112,
                                 .norms_before = true,
                                 .norms_words = false,
                                 .kind = PairPositions::computed});
}

}  // namespace stagecraft
