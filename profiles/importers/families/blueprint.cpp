#include "profiles/importers/families/blueprint.hpp"

#include <algorithm>
#include <cmath>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

int read_blocks(Keys& keys, std::string_view names, std::int64_t otherwise) {
  const std::int64_t blocks = keys.count(names, otherwise);
  if (blocks > most_config_blocks) {
    keys.fail(names,
              concat("expected an integer from 1 to ", most_config_blocks, ", found ", blocks));
  }
  return static_cast<int>(blocks);
}

Sizes read_sizes(Keys& keys, const Defaults& defaults, Unread unread) {
  keys.need({"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"});
  Sizes sizes;
  sizes.hidden = keys.count("hidden_size", defaults.hidden);
  sizes.blocks = read_blocks(keys, "num_hidden_layers", defaults.blocks);
  sizes.heads = keys.count("num_attention_heads", defaults.heads);
  const bool own_keys = !defaults.latent && defaults.key_value_heads > 0;
  sizes.key_value_heads =
      own_keys && !keys.is_null("num_key_value_heads") ? defaults.key_value_heads : sizes.heads;
  if (defaults.latent) {
    keys.ignore({"num_key_value_heads"});
  } else if (unread == Unread::heads_and_width) {
    keys.same("num_key_value_heads", sizes.heads);
  } else {
    sizes.key_value_heads = keys.count("num_key_value_heads", sizes.key_value_heads);
  }
  sizes.inner = keys.count("intermediate_size", defaults.inner > 0 ? defaults.inner : 1);
  sizes.vocabulary = keys.count("vocab_size", defaults.vocabulary);
  sizes.positions = keys.count("max_position_embeddings", defaults.positions);
  const bool reads_width = unread == Unread::none;
  const bool has_width =
      (reads_width && keys.has("head_dim")) || defaults.head_width > 0 || defaults.floors_width;
  if (!has_width && sizes.hidden % sizes.heads != 0) {
    keys.fail("num_attention_heads",
              concat(sizes.heads, " heads do not divide hidden_size = ", sizes.hidden));
  }
  if (sizes.heads % sizes.key_value_heads != 0) {
    keys.fail("num_key_value_heads",
              concat(sizes.key_value_heads, " key-value heads do not divide the ", sizes.heads,
                     " attention heads"));
  }
  // Latents have widths of their own; files of theirs without positions say 0.
  const bool none = defaults.latent && keys.integer("head_dim", 1) == 0;
  const bool own_width = defaults.head_width > 0 && !keys.is_null("head_dim");
  const std::int64_t width = own_width ? defaults.head_width : sizes.hidden / sizes.heads;
  sizes.head_width = std::max<std::int64_t>(width, 1);
  if (none) {
    keys.ignore({"head_dim"});
  } else if (reads_width) {
    sizes.head_width = keys.count("head_dim", sizes.head_width);
  } else {
    keys.same("head_dim", sizes.head_width);
  }
  return sizes;
}

void require_heads_of_hidden(Keys& keys, const Sizes& sizes) {
  if (sizes.heads * sizes.head_width == sizes.hidden) return;
  keys.fail("head_dim", concat(sizes.heads, " heads of ", sizes.head_width, " do not fill ",
                               "hidden_size = ", sizes.hidden,
                               ", for which the class in transformers builds the norms of this "
                               "family's heads: it cannot compute such a model"));
}

Blueprint start(Keys& keys, const Sizes& sizes, bool tied, NormWeights norms) {
  Blueprint blueprint;
  Transformer& numbers = blueprint.numbers;
  numbers.hidden = sizes.hidden;
  numbers.heads = sizes.heads;
  numbers.key_value_heads = sizes.key_value_heads;
  numbers.head_width = sizes.head_width;
  numbers.feed_forward = std::max<std::int64_t>(sizes.inner, 1);
  numbers.vocabulary = sizes.vocabulary;
  numbers.positions = sizes.positions;
  numbers.norm = norms == NormWeights::weight_and_bias ? Transformer::Norm::layer_norm
                                                       : Transformer::Norm::rms_norm;
  numbers.activation = Transformer::FeedForward::swiglu;
  numbers.position = Transformer::Position::rotary;
  numbers.attention_bias = false;
  numbers.output_bias = false;
  numbers.feed_forward_bias = false;
  numbers.tied_head = keys.flag("tie_word_embeddings", tied);
  blueprint.embedding = {lookup("words", sizes.vocabulary, sizes.hidden, Split::inputs)};
  blueprint.last = {norm("last norm", sizes.hidden, norms)};
  return blueprint;
}

std::vector<std::optional<Json>> configs_of_blocks(Keys& keys, int blocks) {
  std::vector<std::optional<Json>> configs(static_cast<std::size_t>(blocks));
  if (!keys.has("per_layer_config")) return configs;
  const Json layers = keys.at("per_layer_config");
  for (const std::string& name : layers.names()) {
    const bool is_index = !name.empty() && name.size() < 7 &&
                          std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    const int block = is_index ? std::stoi(name) : -1;
    if (block < 0 || block >= blocks) layers[name].fail("expected the index of a layer");
    configs[static_cast<std::size_t>(block)] = layers[name];
  }
  return configs;
}

Step lookup(std::string_view name, std::int64_t rows, std::int64_t width, Split split) {
  return {.kind = StepKind::lookup, .name = name, .outputs = width, .inputs = rows, .split = split};
}

Step pooling(std::int64_t outputs, std::int64_t inputs, bool bias) {
  Step step = product("pooler", outputs, inputs, bias);
  step.of_sample = true;
  return step;
}

void add_positions(Blueprint& blueprint, std::int64_t rows) {
  blueprint.numbers.position = Transformer::Position::learned;
  blueprint.embedding.push_back(lookup("positions", rows, blueprint.numbers.hidden));
}

GroupedAttention grouped(const Sizes& sizes, bool bias) {
  return {.hidden = sizes.hidden,
          .heads = sizes.heads,
          .key_value_heads = sizes.key_value_heads,
          .width = sizes.head_width,
          .query_bias = bias,
          .key_bias = bias,
          .value_bias = bias,
          .output_bias = bias};
}

Steps mixed_block(std::int64_t hidden, const Steps& mixer, const Steps& feeding) {
  Steps steps{norm("first norm", hidden)};
  add_steps(steps, mixer);
  steps.push_back(norm("second norm", hidden));
  add_steps(steps, feeding);
  return steps;
}

std::vector<std::string> words_of_blocks(Keys& keys, std::string_view name, int blocks,
                                         const std::vector<std::string>& known,
                                         const std::function<std::string(int)>& otherwise,
                                         std::int64_t modules) {
  std::vector<std::string> words = keys.words(name);
  if (modules > 0 && std::cmp_equal(words.size(), blocks + modules))
    words.resize(static_cast<std::size_t>(blocks));
  if (words.empty()) {
    for (int block = 0; block < blocks; ++block) words.push_back(otherwise(block));
    return words;
  }
  if (std::cmp_not_equal(words.size(), blocks)) {
    keys.fail(name,
              concat("expected a word for each of the ", blocks, " layers, found ", words.size()));
  }
  for (std::string& word : words) {
    if (word == "mamba") word = "linear_attention";
    if (word == "attention") word = "full_attention";
    if (word == "deepseek_sparse_attention") word = "indexed_attention";
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      keys.fail(name, concat("\"", word, "\" is not known here; known: ", join_words(known)));
    }
  }
  return words;
}

std::vector<std::string> kinds_of_blocks(Keys& keys, int blocks,
                                         const std::function<bool(int)>& is_sparse,
                                         std::int64_t modules) {
  return words_of_blocks(
      keys, "mlp_layer_types", blocks, {"dense", "sparse"},
      [&](int block) { return is_sparse(block) ? "sparse" : "dense"; }, modules);
}

std::int64_t rotary_width(Keys& keys, std::int64_t width, double otherwise, std::string_view kind) {
  double part = otherwise;
  if (keys.has("rope_parameters") && keys.json()["rope_parameters"].is_object()) {
    const Json all = keys.json()["rope_parameters"];
    const Json rope = all.contains(kind) && all[kind].is_object() ? all[kind] : all;
    if (rope.contains("partial_rotary_factor") && rope["partial_rotary_factor"].is_number())
      part = rope["partial_rotary_factor"].number();
  }
  part = keys.number("partial_rotary_factor|rotary_pct|rope_pct", part);
  if (!(part >= 0 && part <= 1)) {
    keys.fail("partial_rotary_factor|rotary_pct|rope_pct",
              concat("expected a part from 0 to 1, found ", part));
  }
  return static_cast<std::int64_t>(std::floor(static_cast<double>(width) * part));
}

void set_groups(Keys& keys, const ExpertGroups& otherwise, MixtureShape& shape,
                std::vector<std::string>& notes) {
  constexpr std::string_view key = "n_group|num_expert_group";
  const bool none = keys.is_null(key);
  const bool said = keys.has(key);
  const ExpertGroups groups{.count = none ? 1 : keys.count(key, otherwise.count),
                            .active = none ? 1 : keys.count("topk_group", otherwise.active)};
  if (groups.active > groups.count) {
    notes.push_back(concat("topk_group = ", groups.active, " is more than n_group = ", groups.count,
                           ": groups are left out"));
  }
  if (groups.active >= groups.count) return;
  if (shape.experts % groups.count == 0 &&
      shape.experts / groups.count * groups.active >= shape.active) {
    shape.groups = groups;
  } else if (said) {
    notes.push_back(concat("a token cannot pass ", shape.active, " experts in topk_group = ",
                           groups.active, " of n_group = ", groups.count, " groups (",
                           shape.experts, " experts): groups are left out"));
  }
}

void set_experts(Keys& keys, std::string_view active_names, Transformer& numbers,
                 const MixtureShape& mixture) {
  if (mixture.active < 1 || mixture.active > mixture.experts) {
    const std::string unsaid =
        keys.has(active_names)
            ? ""
            : concat("by default of \"", split(active_names, '|').front(), "\" ");
    keys.fail(active_names, concat(unsaid, "a token cannot pass ", mixture.active, " of ",
                                   mixture.experts, " experts"));
  }
  numbers.experts = Experts{.count = mixture.experts,
                            .active = mixture.active,
                            .feed_forward = mixture.inner,
                            .shared_feed_forward = mixture.shared_inner,
                            .groups = mixture.groups};
}

}  // namespace stagecraft
