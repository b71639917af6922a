#include "profiles/importers/families/decoders.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// Each n-th block sees all tokens; where "layer_types" stand, they say it, and nobody reads the
/// pattern. The library's classes divide by the number, whatever their documentation says of words.
std::int64_t read_pattern(const AttentionRow& row, Keys& keys) {
  if (row.pattern_key.empty()) return row.pattern;
  const bool is_null = keys.is_null(row.pattern_key);
  if (!keys.has(row.pattern_key) && !is_null) return row.pattern;
  if (!is_null && keys.at(row.pattern_key).is_number())
    return keys.count(row.pattern_key, row.pattern);
  const std::string found = is_null ? "null" : keys.at(row.pattern_key).raw().dump();
  keys.fail(row.pattern_key,
            concat("expected an integer n (each n-th layer sees all tokens), found ", found,
                   "; other patterns are written as \"layer_types\", a word for each layer"));
}

/// A second key for the pattern, which must not contradict the first in silence.
void note_other_pattern(const AttentionRow& row, Keys& keys, std::int64_t pattern,
                        std::vector<std::string>& notes) {
  if (row.other_pattern_key.empty() || !keys.has(row.other_pattern_key)) return;
  const std::int64_t other = keys.count(row.other_pattern_key, pattern);
  if (other == pattern) return;
  notes.push_back(concat(row.other_pattern_key, " is ", other, ", but transformers reads ",
                         split(row.pattern_key, '|').front(), " = ", pattern,
                         ", by which layers are counted"));
}

/// Whether each block turns queries and keys by their positions; the key's name says the opposite.
std::vector<bool> turned_blocks(Keys& keys, int blocks) {
  const std::vector<std::int64_t> said = keys.numbers("no_rope_layers");
  const std::int64_t interval = keys.count("no_rope_layer_interval", 4);
  if (!said.empty() && std::cmp_not_equal(said.size(), blocks))
    keys.fail("no_rope_layers",
              concat("expected a number for each of the ", blocks, " layers, found ", said.size()));
  std::vector<bool> turned;
  for (int block = 0; block < blocks; ++block) {
    turned.push_back(said.empty() ? (block + 1) % interval != 0
                                  : said[static_cast<std::size_t>(block)] != 0);
  }
  return turned;
}

/// The window of each block; 0: it sees all tokens.
std::vector<std::int64_t> windows_of(const AttentionRow& row, Keys& keys, int blocks,
                                     std::vector<std::string>& notes) {
  std::vector<std::int64_t> windows(static_cast<std::size_t>(blocks), 0);
  if (row.windows == Windows::none) return windows;
  // A window that is null is no window; only where the key is absent its default holds.
  const bool is_null = keys.json().contains("sliding_window") && !keys.has("sliding_window");
  std::int64_t window = is_null ? 0 : keys.natural("sliding_window", row.window);
  if (row.windows == Windows::used && !keys.flag("use_sliding_window", false)) window = 0;
  if (row.windows == Windows::every || row.windows == Windows::used) {
    std::fill(windows.begin(), windows.end(), window);
    return windows;
  }
  const bool by_flag = row.windows == Windows::late || row.windows == Windows::odd ||
                       row.windows == Windows::unturned;
  if (!keys.flag("use_sliding_window", !by_flag)) window = 0;
  std::int64_t pattern = row.pattern;
  if (window > 0 && !keys.has("layer_types")) {
    pattern = read_pattern(row, keys);
    note_other_pattern(row, keys, pattern, notes);
  }
  keys.ignore(split(row.pattern_key, '|'));
  keys.ignore({std::string(row.other_pattern_key)});
  const std::int64_t late = keys.natural("max_window_layers", row.late);
  const std::vector<bool> turned =
      row.windows == Windows::unturned ? turned_blocks(keys, blocks) : std::vector<bool>{};
  const auto slides = [&](int block) {
    if (window == 0) return false;
    switch (row.windows) {
      case Windows::none:
      case Windows::every:
      case Windows::used: return false;
      case Windows::late: return block >= late;
      case Windows::odd: return (block + 1) % 2 != 0 && block < late;
      case Windows::pattern: return pattern == 0 || (block + 1) % pattern != 0;
      case Windows::led: return block % pattern != 0;
      case Windows::inner: return block >= 2 && block % 4 != 1 && block + 1 != blocks;
      case Windows::typed: return false;
      case Windows::last: return block >= late;
      case Windows::unturned: return !turned[static_cast<std::size_t>(block)];
    }
    return false;
  };
  const std::vector<std::string> words = words_of_blocks(
      keys, "layer_types", blocks, {"full_attention", "sliding_attention"},
      [&](int block) { return slides(block) ? "sliding_attention" : "full_attention"; });
  for (std::size_t block = 0; block < windows.size(); ++block) {
    if (words[block] == "sliding_attention") windows[block] = window;
  }
  return windows;
}

/// Whether each block has experts.
std::vector<bool> sparse_blocks(const MixtureRow& row, Keys& keys, int blocks) {
  std::vector<bool> sparse(static_cast<std::size_t>(blocks), true);
  if (row.blocks == SparseBlocks::all) return sparse;
  const auto set = [&](const std::function<bool(int)>& of) {
    for (int block = 0; block < blocks; ++block)
      sparse[static_cast<std::size_t>(block)] = of(block);
  };
  if (row.blocks == SparseBlocks::stepped) {
    const std::int64_t step = keys.count("decoder_sparse_step", 1);
    std::vector<std::int64_t> dense = keys.numbers("mlp_only_layers");
    if (!keys.has("mlp_only_layers")) {
      for (std::int64_t block = 0; block < row.dense; ++block) dense.push_back(block);
    }
    set([&](int block) {
      return (block + 1) % step == 0 && std::find(dense.begin(), dense.end(), block) == dense.end();
    });
    return sparse;
  }
  if (row.blocks == SparseBlocks::interval) {
    const std::int64_t interval = keys.count("moe_layer_interval", 1);
    const std::int64_t first = keys.natural("moe_layer_start_index", row.dense);
    const std::int64_t end = keys.integer("moe_layer_end_index", -1);
    set([&](int block) {
      return (block + 1) % interval == 0 && block >= first && (end == -1 || block <= end);
    });
    return sparse;
  }
  if (row.blocks == SparseBlocks::after_first) keys.same("moe_layer_freq", std::int64_t{1});
  const std::int64_t dense =
      row.dense_key.empty() ? row.dense : keys.natural(row.dense_key, row.dense);
  set([&](int block) { return block >= dense; });
  if (row.blocks == SparseBlocks::typed) {
    const std::vector<std::string> words =
        kinds_of_blocks(keys, blocks, [&](int block) { return block >= dense; });
    set([&](int block) { return words[static_cast<std::size_t>(block)] == "sparse"; });
  }
  return sparse;
}

GroupedAttention attention_of(const DecoderRow& decoder, Keys& keys, const Sizes& sizes) {
  const AttentionRow& row = decoder.attention;
  GroupedAttention shape{.hidden = sizes.hidden,
                         .heads = sizes.heads,
                         .key_value_heads = sizes.key_value_heads,
                         .width = sizes.head_width,
                         .norms = row.norms,
                         .norm_weights = decoder.norm,
                         .sinks = row.sinks,
                         .own_gate = row.own_gate,
                         .output_norm = decoder.norms_inside,
                         .differential = row.differential};
  const bool bias = row.bias_key.empty() ? row.bias : keys.flag(row.bias_key, row.bias);
  shape.query_bias = shape.key_bias = shape.value_bias = bias;
  shape.output_bias = row.output_bias_key.empty() ? row.output_bias
                                                  : keys.flag(row.output_bias_key, row.output_bias);
  if (!row.norms_key.empty() && !keys.flag(row.norms_key, row.norms_by_default))
    shape.norms = QueryKeyNorm::none;
  // Files of families that always have the norms say so, too.
  if (row.norms_key.empty() && row.norms != QueryKeyNorm::none) keys.ignore({"use_qk_norm"});
  if (!row.both_ways_key.empty()) shape.causal = !keys.flag(row.both_ways_key, false);
  shape.rotary_width = rotary_width(keys, sizes.head_width, row.rotary_part);
  return shape;
}

MixtureShape mixture_of(const DecoderRow& decoder, Keys& keys, const Sizes& sizes,
                        std::vector<std::string>& notes) {
  const MixtureRow& row = decoder.mixture;
  MixtureShape shape{.hidden = sizes.hidden,
                     .experts = keys.for_all_layers(row.experts_key, sizes.blocks, row.experts),
                     .active = keys.for_all_layers(row.active_key, sizes.blocks, row.active),
                     .inner = row.inner_key.empty()
                                  ? sizes.inner
                                  : keys.for_all_layers(row.inner_key, sizes.blocks, row.inner),
                     .gated = decoder.feed_forward.gated,
                     .expert_bias = row.expert_bias,
                     .router_bias = row.router_bias,
                     .shared_gate = row.shared_gate};
  if (!row.shared_key.empty()) {
    const std::int64_t shared = keys.for_all_layers(row.shared_key, sizes.blocks, row.shared, 0);
    shape.shared_inner = shared * shape.inner;
    if (shared == 0 && row.dense_if_unshared) {
      shape.shared_inner = sizes.inner;
      notes.push_back(
          concat(row.shared_key, " is 0, but the class in transformers builds a shared ",
                 "expert as wide as intermediate_size = ", sizes.inner, ", which is counted"));
    }
  }
  if (!row.shared_width_key.empty())
    shape.shared_inner = keys.natural(row.shared_width_key, row.shared_width);
  if (!decoder.feed_forward.bias_key.empty())
    shape.shared_bias = keys.flag(decoder.feed_forward.bias_key, decoder.feed_forward.bias);
  if (row.trained_scores) shape.trained_scores = shape.experts;
  const auto note_unread = [&](std::string_view key, std::int64_t built) {
    if (key.empty()) return;
    const std::int64_t said = keys.for_all_layers(key, sizes.blocks, built, 0);
    if (said != built)
      notes.push_back(concat(key, " is ", said, ", but the class in transformers builds ", built,
                             ", which is counted"));
  };
  note_unread(row.unread_inner_key, shape.inner);
  note_unread(row.unread_shared_key, 1);
  if (row.groups) {
    set_groups(keys, {}, shape, notes);
  } else if (const std::int64_t said = keys.count("n_group", 1); said > 1) {
    notes.push_back(concat("n_group is ", said,
                           ", but the class in transformers chooses among all ", "experts"));
  }
  return shape;
}

/// The row's, less the norms behind attention and feed-forward where the file's flag drops them.
NormPlaces places_of(const DecoderRow& row, Keys& keys) {
  const bool drops = !row.after_key.empty() && !keys.flag(row.after_key, true);
  return drops ? NormPlaces::before : row.places;
}

Steps block_of(const DecoderRow& row, NormPlaces places, std::int64_t hidden,
               const Steps& attending, const Steps& feeding) {
  Steps steps;
  const auto add_norm_called = [&](std::string_view name) {
    steps.push_back(norm(name, hidden, row.norm));
  };
  const bool before = places != NormPlaces::after;
  const bool after = places == NormPlaces::after || places == NormPlaces::around;
  if (before) add_norm_called("first norm");
  add_steps(steps, attending);
  if (after) add_norm_called("second norm");
  if (before && places != NormPlaces::parallel)
    add_norm_called(after ? "third norm" : "second norm");
  add_steps(steps, feeding);
  if (after) add_norm_called("fourth norm");
  return steps;
}

/// A row whose blocks the executor computes, as a Transformer's or by their steps: says so, or what
/// stands against it.
void set_trained(const DecoderRow& row, Blueprint& blueprint, const GroupedAttention& attention,
                 bool feed_forward_bias, const std::vector<std::int64_t>& windows) {
  Transformer& numbers = blueprint.numbers;
  numbers.attention_bias = attention.query_bias;
  numbers.output_bias = attention.output_bias;
  numbers.feed_forward_bias = feed_forward_bias;
  blueprint.is_plain = row.is_plain;
  blueprint.is_trained = row.is_trained;
  blueprint.norm_epsilon = row.norm_epsilon;
  for (const std::int64_t window : windows) {
    if (window == 0 || window >= numbers.positions) continue;
    blueprint.is_plain = false;
    blueprint.is_trained = true;
  }
  if (attention.rotary_width != attention.width) {
    blueprint.is_plain = blueprint.is_trained = false;
    numbers.untrainable = concat("only ", attention.rotary_width, " of a head's ", attention.width,
                                 " numbers are turned by their position");
  }
}

/// "rope_parameters" has one member for each kind of attention; older files have keys for each.
void read_gemma_positions(Keys& keys, Transformer& numbers) {
  Arithmetic& arithmetic = numbers.arithmetic;
  numbers.rotary_base = keys.number("rope_theta", 1e6);
  arithmetic.window_rotary_base = keys.number("rope_local_base_freq", 1e4);
  const auto read = [&](const Json& rope, double& base, bool scales) {
    if (!rope.is_object()) return;
    if (rope.contains("rope_theta") && rope["rope_theta"].is_number())
      base = rope["rope_theta"].number();
    const char* type_name = rope.contains("rope_type") ? "rope_type" : "type";
    const bool typed = rope.contains(type_name) && rope[type_name].is_string();
    const std::string type = typed ? rope[type_name].string() : "default";
    if (type == "default") return;
    if (type != "linear" || !scales || !rope.contains("factor")) {
      numbers.untrainable = concat("its positions are scaled by \"", type, "\"");
      return;
    }
    arithmetic.rotary_factor = rope["factor"].number();
  };
  if (keys.has("rope_scaling")) read(keys.at("rope_scaling"), numbers.rotary_base, true);
  if (!keys.has("rope_parameters")) return;
  const Json rope = keys.at("rope_parameters");
  if (rope.contains("full_attention")) read(rope["full_attention"], numbers.rotary_base, true);
  if (rope.contains("sliding_attention"))
    read(rope["sliding_attention"], arithmetic.window_rotary_base, false);
}

/// Norms by 1 + weight, words' rows times the root of their width, scores over the root of a number
/// of their own, positions of windows by a base of their own.
void set_gemma_arithmetic(Keys& keys, Blueprint& blueprint) {
  Transformer& numbers = blueprint.numbers;
  blueprint.has_own_arithmetic = blueprint.has_own_positions = true;
  numbers.norm_epsilon = keys.number("rms_norm_eps", 1e-6);
  Arithmetic& arithmetic = numbers.arithmetic;
  arithmetic.norms_from_one = true;
  arithmetic.embedding_scale = std::sqrt(static_cast<double>(numbers.hidden));
  arithmetic.score_width = keys.number("query_pre_attn_scalar", 256);
  arithmetic.activation = Arithmetic::Activation::tanh_gelu;
  read_gemma_positions(keys, numbers);
  const std::string activation = keys.word("hidden_activation", "gelu_pytorch_tanh");
  if (activation != "gelu_pytorch_tanh")
    numbers.untrainable = concat("its hidden_activation is \"", activation, "\"");
  for (const std::string_view name : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (keys.has(name)) numbers.untrainable = concat("its ", name, " bounds what it scores");
  }
}

}  // namespace

Blueprint read_decoder(const DecoderRow& row, Keys& keys) {
  const bool has_experts = !row.mixture.experts_key.empty();
  std::vector<std::string> needed{"hidden_size", "num_hidden_layers", "num_attention_heads"};
  if (row.defaults.key_value_heads > 0 && !keys.is_null("num_key_value_heads"))
    needed.emplace_back("num_key_value_heads");
  if (!has_experts || row.mixture.inner_key.empty()) needed.emplace_back("intermediate_size");
  needed.emplace_back("vocab_size");
  if (has_experts)
    needed.insert(needed.end(),
                  {std::string(row.mixture.experts_key), std::string(row.mixture.active_key)});
  keys.need(needed);
  const Sizes sizes = read_sizes(keys, row.defaults, row.unread);
  if (row.heads_of_hidden) require_heads_of_hidden(keys, sizes);
  Blueprint blueprint = start(keys, sizes, row.defaults.tied, row.norm);
  if (row.norms_words)
    blueprint.embedding.push_back(norm("embedding norm", sizes.hidden, row.norm));
  GroupedAttention attending = attention_of(row, keys, sizes);
  blueprint.numbers.causal = attending.causal;
  if (row.norm != NormWeights::weight_and_bias) keys.same("use_rmsnorm", true);
  const bool bias = row.feed_forward.bias_key.empty()
                        ? row.feed_forward.bias
                        : keys.flag(row.feed_forward.bias_key, row.feed_forward.bias);
  Steps dense = feed_forward({.hidden = sizes.hidden,
                              .inner = sizes.inner,
                              .gated = row.feed_forward.gated,
                              .up_bias = bias,
                              .down_bias = bias,
                              .normed = row.norms_inside});
  const std::int64_t learned = row.feed_forward.activation_numbers;
  if (learned > 0 && keys.word("hidden_act", "xielu") == "xielu")
    dense.push_back(numbers("activation", learned));
  std::vector<bool> sparse(static_cast<std::size_t>(sizes.blocks), false);
  Steps routed;
  if (has_experts) {
    const MixtureShape mixing = mixture_of(row, keys, sizes, blueprint.notes);
    set_experts(keys, row.mixture.active_key, blueprint.numbers, mixing);
    routed = mixture(mixing);
    sparse = sparse_blocks(row.mixture, keys, sizes.blocks);
    if (!row.mixture.shares_key.empty())
      blueprint.numbers.experts->shares_add_up = keys.flag(row.mixture.shares_key, false);
    const auto first = std::find(sparse.begin(), sparse.end(), true);
    blueprint.numbers.experts->dense_blocks = first - sparse.begin();
  }
  const std::vector<std::int64_t> windows =
      windows_of(row.attention, keys, sizes.blocks, blueprint.notes);
  const NormPlaces places = places_of(row, keys);
  for (std::size_t block = 0; block < windows.size(); ++block) {
    attending.window = windows[block];
    blueprint.blocks.push_back(
        block_of(row, places, sizes.hidden, attention(attending), sparse[block] ? routed : dense));
  }
  if (!row.head_bias_key.empty()) blueprint.head_bias = keys.flag(row.head_bias_key, false);
  if (row.is_plain || row.is_trained) set_trained(row, blueprint, attending, bias, windows);
  if (row.is_gemma) set_gemma_arithmetic(keys, blueprint);
  if (row.predicts)
    blueprint.prediction_modules = keys.natural("num_nextn_predict_layers|num_mtp_layers", 0);
  for (const std::string_view key : row.harmless) {
    if (!key.empty()) keys.ignore({std::string(key)});
  }
  return blueprint;
}

}  // namespace stagecraft
