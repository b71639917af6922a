// Qwen from Qwen3-Next on: the gated delta rule between blocks that attend.

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/importers/families/families.hpp"

namespace stagecraft {

namespace {

/// Of Qwen3-Next and Qwen3.5: three blocks with the gated delta rule to one with gated attention.
struct QwenMixers {
  Steps attending;
  Steps recurring;
  std::vector<std::string> words;
};

DeltaShape read_qwen_delta(Keys& keys, std::int64_t hidden) {
  return {.hidden = hidden,
          .key_heads = keys.count("linear_num_key_heads", 16),
          .value_heads = keys.count("linear_num_value_heads", 32),
          .key_width = keys.count("linear_key_head_dim", 128),
          .value_width = keys.count("linear_value_head_dim", 128),
          .kernel = keys.count("linear_conv_kernel_dim", 4)};
}

QwenMixers read_qwen_mixers(Keys& keys, const Sizes& sizes) {
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  shape.norms = QueryKeyNorm::shared;
  shape.gated = true;
  keys.ignore({"attn_output_gate", "mamba_ssm_dtype", "mrope_section", "mlp_only_layers",
               "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"});
  shape.rotary_width = rotary_width(keys, sizes.head_width, 0.25);
  const DeltaShape delta = read_qwen_delta(keys, sizes.hidden);
  const std::int64_t interval = keys.count("full_attention_interval", 4);
  return {attention(shape), gated_delta(delta),
          words_of_blocks(keys, "layer_types", sizes.blocks, {attends, recurs}, [&](int block) {
            return (block + 1) % interval != 0 ? recurs : attends;
          })};
}

MixtureShape read_qwen_mixture(Keys& keys, std::int64_t hidden, std::int64_t experts,
                               std::int64_t active) {
  return {.hidden = hidden,
          .experts = keys.count("num_experts|num_local_experts", experts),
          .active = keys.count("num_experts_per_tok", active),
          .inner = keys.count("moe_intermediate_size", 512),
          .shared_inner = keys.natural("shared_expert_intermediate_size", 512),
          .shared_gate = true};
}

void add_qwen_blocks(Blueprint& blueprint, const QwenMixers& mixers,
                     const std::function<const Steps&(int)>& feeding) {
  for (std::size_t block = 0; block < mixers.words.size(); ++block) {
    const Steps& mixer = mixers.words[block] == attends ? mixers.attending : mixers.recurring;
    blueprint.blocks.push_back(
        mixed_block(blueprint.numbers.hidden, mixer, feeding(static_cast<int>(block))));
  }
}

}  // namespace

Blueprint read_qwen3_next(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {151936, 2048, 5632, 48, 16, 2, 256, 32768});
  Blueprint blueprint = start(keys, sizes, false);
  const std::vector<std::int64_t> only_dense = keys.numbers("mlp_only_layers");
  const std::int64_t step = keys.count("decoder_sparse_step", 1);
  const MixtureShape mixing = read_qwen_mixture(keys, sizes.hidden, 512, 10);
  const Steps sparse = mixture(mixing);
  const Steps dense = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  add_qwen_blocks(blueprint, read_qwen_mixers(keys, sizes), [&](int block) -> const Steps& {
    const bool is_dense =
        std::find(only_dense.begin(), only_dense.end(), block) != only_dense.end();
    return is_dense || (block + 1) % step != 0 ? dense : sparse;
  });
  return blueprint;
}

Blueprint read_qwen3_5(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {248320, 4096, 12288, 32, 16, 4, 256, 32768});
  Blueprint blueprint = start(keys, sizes, false);
  const Steps dense = feed_forward({.hidden = sizes.hidden, .inner = sizes.inner});
  add_qwen_blocks(blueprint, read_qwen_mixers(keys, sizes),
                  [&](int) -> const Steps& { return dense; });
  return blueprint;
}

Blueprint read_qwen3_5_moe(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {248320, 2048, 0, 40, 16, 2, 256, 32768});
  Blueprint blueprint = start(keys, sizes, false);
  const MixtureShape mixing = read_qwen_mixture(keys, sizes.hidden, 256, 8);
  const Steps sparse = mixture(mixing);
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  add_qwen_blocks(blueprint, read_qwen_mixers(keys, sizes),
                  [&](int) -> const Steps& { return sparse; });
  return blueprint;
}

namespace {

/// Qwen4's streams: weights of low rank for each number of each of them, from one norm over all.
struct QwenStreams {
  std::int64_t hidden = 0, count = 0, rank = 0;
  std::int64_t all() const { return count * hidden; }
};

/// What goes into a half of a block, and how much of its output each stream takes.
Steps gated_streams(const QwenStreams& streams, bool injects) {
  const std::int64_t all = streams.all();
  Steps steps{norm("state norm", all)};
  if (injects) steps.push_back(product("hyper-connections", streams.count, all));
  Step down = product("hyper-connections", streams.rank, all);
  steps.push_back(injects ? beside(down) : down);
  steps.push_back(product("hyper-connections", all, streams.rank));
  return steps;
}

/// Chooses the keys of attention among blocks of them (Qwen4's QSA).
struct QwenIndexer {
  std::int64_t heads = 0, width = 0, budget = 0, block = 1;
};

QwenIndexer read_qwen_indexer(Keys& keys) {
  for (const std::string_view name : {"indexer_n_heads", "indexer_kv_heads", "indexer_head_dim",
                                      "indexer_budget", "indexer_compress_ratio"}) {
    if (!keys.has(name)) {
      keys.fail(name, concat("the key \"", name,
                             "\" is missing: the class in transformers cannot "
                             "build its indexer without"));
    }
  }
  if (keys.count("indexer_kv_heads", 1) != 1) keys.fail("indexer_kv_heads", "only 1 is known");
  return {.heads = keys.count("indexer_n_heads", 1),
          .width = keys.count("indexer_head_dim", 1),
          .budget = keys.count("indexer_budget", 1),
          .block = keys.count("indexer_compress_ratio", 1)};
}

Steps qwen_indexer(const QwenIndexer& indexer, std::int64_t hidden) {
  return {divided("indexer query", indexer.heads * indexer.width, hidden, false, indexer.heads),
          beside(product("indexer key", indexer.width, hidden)),
          norm("indexer norm", indexer.width),
          norm("indexer norm", indexer.width),
          {.kind = StepKind::attention,
           .name = "indexer",
           .heads = indexer.heads,
           .key_value_heads = 1,
           .score_width = indexer.width,
           .stride = indexer.block}};
}

bool is_prime(std::int64_t number) {
  for (std::int64_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) return false;
  }
  return number >= 2;
}

/// Features of n-grams in some layers: hashed into tables whose sizes are primes, one after another
/// in all such layers.
struct QwenGrams {
  std::int64_t width = 0;    ///< of all rows that a token reads
  std::int64_t tables = 0;   ///< in each layer
  std::int64_t base = 0;     ///< the first prime is the next from here on
  std::int64_t divisor = 1;  ///< of the rows of a layer's tables together
  std::int64_t kernel = 0;
  std::vector<std::int64_t> layers;  ///< counted from 1, in order
};

QwenGrams read_qwen_grams(Keys& keys, const Sizes& sizes, const std::vector<std::string>& words) {
  QwenGrams grams{.width = keys.count("ple_embed_dim", sizes.hidden),
                  .tables = (keys.count("ngram_size", 3) - 1) * keys.count("heads_per_ngram", 8),
                  .base = keys.count("ngram_vocab_size_base", 20'000'000),
                  .divisor = keys.count("make_ngram_vocab_size_divisible_by", 128),
                  .kernel = keys.count("ple_conv_kernel_size", 4),
                  .layers = keys.numbers("ple_layer_ids")};
  keys.ignore({"seed", "split_ngram_parts", "number_of_conv_states"});
  std::sort(grams.layers.begin(), grams.layers.end());
  grams.layers.erase(std::unique(grams.layers.begin(), grams.layers.end()), grams.layers.end());
  for (const std::int64_t layer : grams.layers) {
    if (layer < 1 || layer > sizes.blocks || words[static_cast<std::size_t>(layer - 1)] != recurs) {
      keys.fail("ple_layer_ids", concat("expected numbers from 1 to ", sizes.blocks,
                                        " of layers with linear attention, found ", layer));
    }
  }
  // Primes are found one by one.
  constexpr std::int64_t largest_base = std::int64_t{1} << 32U, most_tables = 4096;
  if (grams.base > largest_base)
    keys.fail("ngram_vocab_size_base", concat("expected at most ", largest_base));
  const auto layers = static_cast<std::int64_t>(grams.layers.size());
  if (layers > 0 && grams.tables > most_tables / layers) {
    keys.fail("heads_per_ngram", concat(grams.tables, " tables of n-grams in each of ", layers,
                                        " layers are more than the ", most_tables, " known here"));
  }
  if (!grams.layers.empty() && (grams.tables < 1 || grams.width % grams.tables != 0)) {
    keys.fail("ple_embed_dim", concat("expected a multiple of the ", grams.tables,
                                      " tables of n-grams, found ", grams.width));
  }
  return grams;
}

/// Rows of the tables of each layer that has them.
std::vector<std::int64_t> rows_of_grams(const QwenGrams& grams) {
  std::vector<std::int64_t> rows;
  std::int64_t prime = grams.base - 1;
  for (std::size_t layer = 0; layer < grams.layers.size(); ++layer) {
    std::int64_t sum = 0;
    for (std::int64_t table = 0; table < grams.tables; ++table) {
      do {
        ++prime;
      } while (!is_prime(prime));
      sum += prime;
    }
    rows.push_back((sum + grams.divisor - 1) / grams.divisor * grams.divisor);
  }
  return rows;
}

/// A token reads a row of each table, which peers share (`ngram_embedding` of the class's plan);
/// each stream weighs what they say.
Steps gram_features(const QwenGrams& grams, std::int64_t rows, const QwenStreams& streams) {
  const std::int64_t all = streams.all();
  Steps steps{lookup("per-layer words", rows / grams.tables, grams.width, Split::inputs)};
  if (rows % grams.tables > 0)
    steps.push_back(numbers("per-layer words", rows % grams.tables * (grams.width / grams.tables)));
  const Step gate{.kind = StepKind::activation,
                  .name = "per-layer gate",
                  .outputs = all,
                  .inputs = 2 * all + streams.hidden};
  const Step convolving{.kind = StepKind::convolution,
                        .name = "short convolution",
                        .outputs = grams.kernel,
                        .inputs = all};
  add_steps(steps, {product("per-layer projection", all, grams.width),
                    beside(product("per-layer projection", streams.hidden, grams.width)),
                    norm("state norm", all), norm("state norm", all), gate, norm("state norm", all),
                    convolving});
  return steps;
}

}  // namespace

Blueprint read_qwen4_exp(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {248320, 2048, 0, 40, 16, 2, 256, 32768});
  Blueprint blueprint = start(keys, sizes, false);
  const QwenStreams streams{.hidden = sizes.hidden,
                            .count = keys.count("hc_count", 4),
                            .rank = keys.count("hc_lowrank", 320)};
  blueprint.numbers.streams = streams.count;
  blueprint.last = gated_streams(streams, false);
  const QwenIndexer indexer = read_qwen_indexer(keys);
  GroupedAttention shape = grouped(sizes, keys.flag("attention_bias", false));
  shape.norms = QueryKeyNorm::shared;
  shape.gated = true;
  shape.rotary_width = rotary_width(keys, sizes.head_width);
  shape.window = indexer.budget;
  Steps attending = qwen_indexer(indexer, sizes.hidden);
  add_steps(attending, attention(shape));
  const Steps recurring = gated_delta(read_qwen_delta(keys, sizes.hidden));
  const MixtureShape mixing = read_qwen_mixture(keys, sizes.hidden, 512, 10);
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  const std::string chooses = "indexed_attention";
  const std::int64_t interval = keys.count("full_attention_interval", 4);
  const std::vector<std::string> words =
      words_of_blocks(keys, "layer_types", sizes.blocks, {attends, chooses, recurs},
                      [&](int block) { return (block + 1) % interval != 0 ? recurs : chooses; });
  const QwenGrams grams = read_qwen_grams(keys, sizes, words);
  const std::vector<std::int64_t> rows = rows_of_grams(grams);
  keys.ignore({"output_gate_type", "mamba_ssm_dtype", "attn_output_gate"});
  for (std::size_t block = 0; block < words.size(); ++block) {
    Steps steps;
    const auto found =
        std::find(grams.layers.begin(), grams.layers.end(), static_cast<std::int64_t>(block) + 1);
    if (found != grams.layers.end()) {
      const auto at = static_cast<std::size_t>(found - grams.layers.begin());
      steps = gram_features(grams, rows[at], streams);
    }
    add_steps(steps, gated_streams(streams, true));
    add_steps(steps, words[block] == recurs ? recurring : attending);
    add_steps(steps, gated_streams(streams, true));
    add_steps(steps, mixture(mixing));
    blueprint.blocks.push_back(steps);
  }
  return blueprint;
}

}  // namespace stagecraft
