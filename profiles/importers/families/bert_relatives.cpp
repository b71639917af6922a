// BERT's relatives that say positions in other ways or read words in other widths: DeBERTa, ESM,
// RoFormer, RemBERT and LayoutLM.

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/importers/families/encoders.hpp"
#include "profiles/importers/families/families.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

const std::string stored_positions =
    "positions are computed and kept among the parameters, as transformers counts them; none of "
    "them is trained";

/// Words are narrower or wider than states: a norm of theirs, and a projection.
void read_words(Blueprint& blueprint, std::int64_t width) {
  Step& words = blueprint.embedding.front();
  words = lookup(words.name, words.inputs, width, words.split);
}

/// Of distances between tokens, which queries and keys have scores with, too (He et al. 2020).
struct Distances {
  std::int64_t rows = 0;  ///< 0: positions are elsewhere
  bool of_keys = false;   ///< content to position
  bool of_queries = false;
  bool shared = false;  ///< projected as tokens are
};

/// "p2c|c2p", or a list of such words.
std::vector<std::string> words_of_scores(Keys& keys) {
  constexpr std::string_view key = "pos_att_type";
  if (!keys.has(key)) return {};
  const std::vector<std::string> words =
      keys.at(key).is_array() ? keys.words(key) : split(keys.word(key, ""), '|');
  for (const std::string& word : words) {
    if (word != "c2p" && word != "p2c")
      keys.fail(key, concat("\"", word, "\" is not known here; known: c2p, p2c"));
  }
  return words;
}

Distances read_distances(Keys& keys, const Sizes& sizes, bool has_buckets) {
  const std::vector<std::string> words = words_of_scores(keys);
  const std::int64_t said = keys.integer("max_relative_positions", -1);
  std::int64_t span = said < 1 ? sizes.positions : said;
  if (has_buckets) {
    if (const std::int64_t buckets = keys.integer("position_buckets", -1); buckets > 0)
      span = buckets;
  }
  const auto says = [&](std::string_view word) {
    return std::ranges::find(words, word) != words.end();
  };
  if (!keys.flag("relative_attention", false)) {
    if (has_buckets) keys.ignore({"share_att_key", "norm_rel_ebd"});
    return {};
  }
  return {.rows = 2 * span,
          .of_keys = says("c2p"),
          .of_queries = says("p2c"),
          .shared = has_buckets && keys.flag("share_att_key", false)};
}

/// Projections of distances, and their scores with the tokens.
Steps scores_of_distances(const GroupedAttention& shape, const Distances& distances,
                          bool key_bias) {
  Steps steps;
  const auto add = [&](std::string_view name, bool bias) {
    Step projection = divided(name, shape.heads * shape.width, shape.hidden, bias, shape.heads);
    projection.rows = distances.rows;
    projection.shares_input = !steps.empty();
    projection.tied = distances.shared;
    if (distances.shared) projection.bias = false;
    steps.push_back(projection);
    steps.push_back({.kind = StepKind::attention,
                     .name = "position scores",
                     .heads = shape.heads,
                     .key_value_heads = shape.heads,
                     .score_width = shape.width,
                     .rows = distances.rows,
                     .causal = false});
  };
  if (distances.of_keys) add("position keys", key_bias);
  if (distances.of_queries) add("position queries", true);
  return steps;
}

/// Words, positions and token types as the file has them.
void read_deberta_words(Keys& keys, const Sizes& sizes, std::int64_t width, Blueprint& blueprint) {
  read_words(blueprint, width);
  Transformer& numbers = blueprint.numbers;
  numbers.position = Transformer::Position::none;
  if (keys.flag("position_biased_input", true)) {
    numbers.position = Transformer::Position::learned;
    blueprint.embedding.push_back(lookup("positions", sizes.positions, width));
  }
  if (const std::int64_t types = keys.natural("type_vocab_size", 0); types > 0)
    blueprint.embedding.push_back(lookup("token types", types, width));
  if (width != sizes.hidden)
    blueprint.embedding.push_back(product("embedding projection", sizes.hidden, width));
  blueprint.embedding.push_back(norm("embedding norm", sizes.hidden, with_shift));
}

/// A bias of the logits, which older heads keep twice where they are not the words.
void add_deberta_heads(Keys& keys, std::int64_t width, Blueprint& blueprint) {
  add_bert_heads(blueprint, false);
  const std::int64_t hidden = blueprint.numbers.hidden;
  if (!keys.flag("legacy", true)) {
    keys.same("embedding_size", hidden);
    blueprint.numbers.tied_head = true;  // whatever the file says
    return;
  }
  blueprint.transform = {product("transform", width, hidden, true),
                         norm("last norm", width, with_shift)};
  if (!blueprint.numbers.tied_head)
    blueprint.transform.push_back(numbers("transform", blueprint.numbers.vocabulary));
  blueprint.words_width = width;
}

struct DebertaShape {
  Sizes sizes;
  GroupedAttention attention;
  Distances distances;
};

Steps deberta_block(const DebertaShape& shape) {
  Steps attending = attention(shape.attention);
  const Step output = attending.back();
  attending.pop_back();
  add_steps(attending,
            scores_of_distances(shape.attention, shape.distances, shape.attention.key_bias));
  attending.push_back(output);
  attending.push_back(norm("first norm", shape.sizes.hidden, with_shift));
  add_steps(attending, feed_forward({.hidden = shape.sizes.hidden,
                                     .inner = shape.sizes.inner,
                                     .gated = false,
                                     .up_bias = true,
                                     .down_bias = true}));
  attending.push_back(norm("second norm", shape.sizes.hidden, with_shift));
  return attending;
}

Sizes read_deberta_sizes(Keys& keys, const Defaults& defaults) {
  keys.need({"intermediate_size", "max_position_embeddings"});
  Sizes sizes = read_sizes(keys, defaults, Unread::heads_and_width);
  keys.same("pooler_hidden_size", sizes.hidden);
  keys.ignore({"pooler_hidden_act", "position_embedding_type", "attention_head_size"});
  keys.same("attention_head_size", sizes.head_width);
  return sizes;
}

Blueprint start_deberta(Keys& keys, const Sizes& sizes, std::int64_t width) {
  Blueprint blueprint = start(keys, sizes, true, with_shift);
  blueprint.numbers.causal = false;
  blueprint.last.clear();
  read_deberta_words(keys, sizes, width, blueprint);
  add_deberta_heads(keys, width, blueprint);
  return blueprint;
}

}  // namespace

/// Queries, keys and values of one matrix, of which keys have no bias.
Blueprint read_deberta(Keys& keys) {
  const Sizes sizes = read_deberta_sizes(keys, base_sizes(50265));
  const std::int64_t width = keys.count("embedding_size", sizes.hidden);
  Blueprint blueprint = start_deberta(keys, sizes, width);
  DebertaShape shape{.sizes = sizes, .attention = grouped(sizes, true)};
  shape.attention.causal = false;
  shape.attention.key_bias = false;
  shape.distances = read_distances(keys, sizes, false);
  keys.refuse_true("talking_head",
                   "heads that are mixed before and behind the softmax are not known here");
  if (shape.distances.rows > 0) {
    blueprint.embedding.push_back(numbers("position biases", shape.distances.rows * sizes.hidden));
    blueprint.notes.push_back(concat("scores of positions are counted for ", shape.distances.rows,
                                     " distances, as sequences of ", shape.distances.rows / 2,
                                     " tokens have them"));
  }
  blueprint.blocks.assign(static_cast<std::size_t>(sizes.blocks), deberta_block(shape));
  return blueprint;
}

/// DeBERTa 2 and 3: distances in buckets; of the largest models the first block has a convolution
/// beside it.
Blueprint read_deberta_v2(Keys& keys) {
  const Sizes sizes = read_deberta_sizes(keys, {128100, 1536, 6144, 24, 24, 0, 0, 512});
  const std::int64_t width = keys.count("embedding_size", sizes.hidden);
  Blueprint blueprint = start_deberta(keys, sizes, width);
  DebertaShape shape{.sizes = sizes, .attention = grouped(sizes, true)};
  shape.attention.causal = false;
  shape.distances = read_distances(keys, sizes, true);
  if (shape.distances.rows > 0)
    blueprint.embedding.push_back(numbers("position biases", shape.distances.rows * sizes.hidden));
  if (keys.word("norm_rel_ebd", "none").find("layer_norm") != std::string::npos)
    blueprint.embedding.push_back(numbers("position biases", 2 * sizes.hidden));
  blueprint.blocks.assign(static_cast<std::size_t>(sizes.blocks), deberta_block(shape));
  const std::int64_t kernel = keys.natural("conv_kernel_size", 0);
  const std::int64_t groups = keys.count("conv_groups", 1);
  keys.ignore({"conv_act"});
  if (kernel == 0) return blueprint;
  if (kernel % 2 == 0)
    keys.fail("conv_kernel_size", concat("expected an odd number, found ", kernel,
                                         ": the class in transformers cannot compute others"));
  if (sizes.hidden % groups != 0)
    keys.fail("conv_groups", concat(groups, " groups do not divide hidden_size = ", sizes.hidden));
  Steps& first = blueprint.blocks.front();
  first.push_back(
      beside(product("mixer convolution", sizes.hidden, kernel * sizes.hidden / groups, true)));
  first.push_back(norm("third norm", sizes.hidden, with_shift));
  return blueprint;
}

/// Of proteins. Whoever asks has contacts from all scores, by numbers that training leaves alone.
Blueprint read_esm(Keys& keys) {
  keys.need({"intermediate_size", "vocab_size"});
  keys.refuse_true("add_cross_attention", "blocks with cross-attention are not known here");
  keys.refuse_true("is_folding_model", "models that fold (ESMFold) are not known here");
  if (!keys.has("vocab_size")) keys.fail("vocab_size", "the key \"vocab_size\" is missing");
  const Sizes sizes =
      read_sizes(keys, {33, 768, 3072, 12, 12, 0, 0, 1026}, Unread::heads_and_width);
  keys.ignore({"vocab_list", "esmfold_config", "token_dropout", "attention_probs_dropout_prob"});
  keys.only("position_embedding_type", {"absolute", "rotary"});
  const bool turns = keys.word("position_embedding_type", "absolute") == "rotary";
  Blueprint blueprint = start(keys, sizes, true, with_shift);
  blueprint.numbers.causal = keys.flag("is_decoder", false);
  if (!turns) {
    add_positions(blueprint, sizes.positions);
    const std::int64_t pads = keys.natural("pad_token_id", 0) + 1;
    blueprint.numbers.positions = std::max<std::int64_t>(sizes.positions - pads, 1);
  }
  if (keys.flag("emb_layer_norm_before", false))
    blueprint.embedding.push_back(norm("embedding norm", sizes.hidden, with_shift));
  GroupedAttention shape = grouped(sizes, true);
  shape.causal = blueprint.numbers.causal;
  shape.rotary_width = turns ? sizes.head_width : 0;
  blueprint.blocks.assign(static_cast<std::size_t>(sizes.blocks),
                          bert_block(shape, sizes.inner, true));
  blueprint.last.push_back(numbers("multipliers", sizes.blocks * sizes.heads + 1));
  add_bert_heads(blueprint, false);
  blueprint.spans_of_labels = false;
  blueprint.pools_alone = true;
  return blueprint;
}

/// Positions turn queries and keys, and values where the file says so.
Blueprint read_roformer(Keys& keys) {
  keys.need({"intermediate_size", "max_position_embeddings"});
  keys.refuse_true("add_cross_attention", "blocks with cross-attention are not known here");
  const Sizes sizes =
      read_sizes(keys, {50000, 768, 3072, 12, 12, 0, 0, 1536}, Unread::heads_and_width);
  const std::int64_t width = keys.count("embedding_size", sizes.hidden);
  Blueprint blueprint = start(keys, sizes, true, with_shift);
  Transformer& of_model = blueprint.numbers;
  of_model.causal = keys.flag("is_decoder", false);
  of_model.position = Transformer::Position::learned;
  blueprint.notes.push_back(stored_positions);
  read_words(blueprint, width);
  blueprint.embedding.push_back(lookup("token types", keys.count("type_vocab_size", 2), width));
  blueprint.embedding.push_back(norm("embedding norm", width, with_shift));
  if (width != sizes.hidden)
    blueprint.embedding.push_back(product("embedding projection", sizes.hidden, width, true));
  blueprint.embedding.push_back(numbers("positions", sizes.positions * sizes.head_width));
  blueprint.last.clear();
  GroupedAttention shape = grouped(sizes, true);
  shape.causal = of_model.causal;
  shape.rotary_width = sizes.head_width;
  // Queries and keys are two of three that are turned then.
  if (keys.flag("rotary_value", false)) shape.rotary_width += sizes.head_width / 2;
  blueprint.blocks.assign(static_cast<std::size_t>(sizes.blocks),
                          bert_block(shape, sizes.inner, false));
  add_bert_heads(blueprint, false);
  blueprint.transform = {product("transform", width, sizes.hidden, true),
                         norm("last norm", width, with_shift)};
  if (!of_model.tied_head) blueprint.transform.push_back(numbers("transform", sizes.vocabulary));
  blueprint.words_width = width;
  keys.ignore({"attention_probs_dropout_prob", "position_embedding_type"});
  return blueprint;
}

/// Words are read in one width and written in another.
Blueprint read_rembert(Keys& keys) {
  keys.need({"input_embedding_size", "output_embedding_size"});
  Blueprint blueprint = read_bert_family(keys, {.sizes = {250300, 1152, 4608, 32, 18, 0, 0, 512}});
  const std::int64_t hidden = blueprint.numbers.hidden;
  const std::int64_t in = keys.count("input_embedding_size", 256);
  const std::int64_t out = keys.count("output_embedding_size", 1664);
  for (Step& step : blueprint.embedding)
    step = step.kind == StepKind::norm ? norm(step.name, in, with_shift)
                                       : lookup(step.name, step.inputs, in, step.split);
  blueprint.embedding.push_back(product("embedding projection", hidden, in, true));
  blueprint.transform = {product("transform", out, hidden, true),
                         norm("last norm", out, with_shift)};
  blueprint.words_width = out;
  blueprint.own_head = true;
  keys.ignore({"classifier_dropout_prob"});
  if (!keys.has("tie_word_embeddings")) blueprint.numbers.tied_head = false;
  return blueprint;
}

/// Texts on pages: words have places in two dimensions, and whoever asks has the pooler computed.
Blueprint read_layoutlm(Keys& keys) {
  Blueprint blueprint = read_bert_family(keys, {.sizes = base_sizes(30522), .bias_twice = true});
  const std::int64_t hidden = blueprint.numbers.hidden;
  const std::int64_t rows = keys.count("max_2d_position_embeddings", 1024);
  // Left and right edges have one table, upper and lower ones another; then heights and widths.
  const Steps places(4, lookup("positions", rows, hidden));
  blueprint.embedding.insert(blueprint.embedding.end() - 1, places.begin(), places.end());
  blueprint.last = blueprint.pooler;
  blueprint.pooler.clear();
  blueprint.pools_alone = false;
  return blueprint;
}

}  // namespace stagecraft
