// Encoders and decoders side by side beyond T5's and BART's own: Switch Transformers, T5Gemma.

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/importers/families/families.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// Which blocks of a tower have experts: those after each `step`-th, as the library's class has it.
bool is_sparse_switch(int block, std::int64_t step) {
  return step > 0 && (step == 1 || block % step == 1);
}

std::int64_t read_sparse_step(Keys& keys, const std::string& tower, int blocks) {
  const std::int64_t sparse = keys.natural(concat("num_sparse_", tower, "_layers"), 3);
  return keys.natural(concat(tower, "_sparse_step"), sparse > 0 ? blocks / sparse : blocks);
}

}  // namespace

/// T5's blocks, some of whose feed-forwards are a choice of one expert (Fedus et al. 2021).
Blueprint read_switch_transformers(Keys& keys) {
  keys.need({"d_model|hidden_size", "num_layers|num_hidden_layers", "num_heads|num_attention_heads",
             "d_kv", "d_ff", "vocab_size", "num_experts"});
  Sizes sizes;
  sizes.hidden = keys.count("d_model|hidden_size", 768);
  sizes.blocks = read_blocks(keys, "num_layers|num_hidden_layers", 12);
  sizes.heads = sizes.key_value_heads = keys.count("num_heads|num_attention_heads", 12);
  sizes.head_width = keys.count("d_kv", 64);
  sizes.inner = keys.count("d_ff", 2048);
  sizes.vocabulary = keys.count("vocab_size", 32128);
  sizes.positions = keys.count("n_positions", 512);
  const int decoders = read_blocks(keys, "num_decoder_layers",
                                   keys.is_null("num_decoder_layers") ? sizes.blocks : 12);
  const std::int64_t encoder_step = read_sparse_step(keys, "encoder", sizes.blocks);
  const std::int64_t decoder_step = read_sparse_step(keys, "decoder", decoders);
  const std::int64_t buckets = keys.count("relative_attention_num_buckets", 32);
  keys.ignore({"relative_attention_max_distance", "dense_act_fn", "expert_capacity", "router_dtype",
               "router_ignore_padding_tokens", "add_router_probs"});
  const MixtureShape mixing{.hidden = sizes.hidden,
                            .experts = keys.count("num_experts", 8),
                            .active = 1,
                            .inner = sizes.inner,
                            .gated = false,
                            .router_bias = keys.flag("router_bias", false)};
  Blueprint blueprint = start(keys, sizes, true);
  blueprint.numbers.position = Transformer::Position::none;
  set_experts(keys, "num_experts", blueprint.numbers, mixing);
  blueprint.notes.push_back(
      "experts are counted as if each had room for all tokens that choose it (expert_capacity)");
  blueprint.decoder_embedding = blueprint.embedding;
  const Steps dense = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner, .gated = false});
  const Steps sparse = mixture(mixing);
  GroupedAttention shape = grouped(sizes, false);
  const auto block = [&](bool decodes, int index, std::int64_t step) {
    Steps steps{norm("first norm", sizes.hidden)};
    shape.causal = decodes;
    shape.crosses = false;
    add_steps(steps, attention(shape));
    if (index == 0) steps.push_back(numbers("position biases", buckets * sizes.heads));
    if (decodes) {
      steps.push_back(norm("second norm", sizes.hidden));
      shape.crosses = true;
      add_steps(steps, attention(shape));
    }
    steps.push_back(norm("third norm", sizes.hidden));
    add_steps(steps, is_sparse_switch(index, step) ? sparse : dense);
    return steps;
  };
  for (int i = 0; i < sizes.blocks; ++i) blueprint.encoder.push_back(block(false, i, encoder_step));
  for (int i = 0; i < decoders; ++i) blueprint.blocks.push_back(block(true, i, decoder_step));
  blueprint.encoder_last = {norm("last norm", sizes.hidden)};
  return blueprint;
}

namespace {

/// One of T5Gemma's towers.
struct GemmaTower {
  Sizes sizes;
  bool bias = false;
  std::vector<std::int64_t> windows;  ///< of each block; 0: none
};

GemmaTower read_gemma_tower(Keys keys) {
  GemmaTower tower{.sizes = read_sizes(keys, {256000, 2304, 9216, 26, 8, 4, 256, 8192, true})};
  tower.bias = keys.flag("attention_bias", false);
  const std::int64_t window =
      keys.natural("sliding_window", keys.is_null("sliding_window") ? 0 : 4096);
  for (const std::string& word :
       words_of_blocks(keys, "layer_types", tower.sizes.blocks, {attends, windowed},
                       [](int block) { return block % 2 == 0 ? windowed : attends; }))
    tower.windows.push_back(word == windowed ? window : 0);
  keys.ignore({"tie_word_embeddings", "is_decoder"});
  keys.refuse_unread("t5gemma");
  return tower;
}

/// Norms around each part.
Steps gemma_tower_block(const GemmaTower& tower, std::size_t index, bool decodes) {
  const Sizes& sizes = tower.sizes;
  GroupedAttention shape = grouped(sizes, tower.bias);
  shape.causal = decodes;
  shape.rotary_width = sizes.head_width;
  // An encoder's window is on both sides of a token.
  const std::int64_t window = tower.windows[index];
  shape.window = decodes || window == 0 ? window : 2 * window + 1;
  Steps steps;
  const auto add_part = [&](std::string_view before, const Steps& part) {
    steps.push_back(norm(before, sizes.hidden));
    add_steps(steps, part);
    steps.push_back(norm("fourth norm", sizes.hidden));
  };
  add_part("first norm", attention(shape));
  if (decodes) {
    shape.crosses = true;
    shape.window = 0;
    shape.rotary_width = 0;
    add_part("second norm", attention(shape));
  }
  add_part("third norm", feed_forward({.hidden = sizes.hidden, .inner = sizes.inner}));
  return steps;
}

}  // namespace

/// Two of Gemma 2's towers, each with its own words; the head's are the decoder's.
Blueprint read_t5gemma(Keys& keys) {
  keys.need({"encoder", "decoder"});
  const auto tower = [&](std::string_view name) {
    return read_gemma_tower(
        Keys(keys.has(name) ? keys.at(name) : Json::parse("{}", "config.json"), true));
  };
  const GemmaTower encoder = tower("encoder"), decoder = tower("decoder");
  if (encoder.sizes.hidden != decoder.sizes.hidden) {
    keys.fail("encoder", concat("states of the encoder are ", encoder.sizes.hidden,
                                " wide, those of the decoder ", decoder.sizes.hidden,
                                "; only towers of one width are known here"));
  }
  keys.ignore({"vocab_size", "classifier_dropout_rate"});
  keys.same("is_encoder_decoder", true);
  Blueprint blueprint = start(keys, decoder.sizes, true);
  blueprint.numbers.position = Transformer::Position::none;
  blueprint.decoder_embedding = blueprint.embedding;
  blueprint.embedding.front().inputs = encoder.sizes.vocabulary;
  blueprint.own_words = true;
  blueprint.encoder_last = {norm("last norm", decoder.sizes.hidden)};
  for (std::size_t i = 0; i < encoder.windows.size(); ++i)
    blueprint.encoder.push_back(gemma_tower_block(encoder, i, false));
  for (std::size_t i = 0; i < decoder.windows.size(); ++i)
    blueprint.blocks.push_back(gemma_tower_block(decoder, i, true));
  blueprint.classes_bias = true;
  return blueprint;
}

}  // namespace stagecraft
