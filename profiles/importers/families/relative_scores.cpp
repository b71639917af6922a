// Decoders whose positions are scores of their own, or whose attention is gated by what it attends
// to: Inkling, Doge; and JetMoE, whose heads are experts.

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/importers/families/decoders.hpp"
#include "profiles/importers/families/families.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// Along the sequence, added to what goes in.
Step short_memory(std::int64_t channels, std::int64_t kernel) {
  return {.kind = StepKind::convolution,
          .name = "short convolution",
          .outputs = kernel,
          .inputs = channels,
          .split = Split::outputs};
}

/// Inkling's attention: keys and values remember a few tokens; each token's few numbers for a head
/// have scores with a table of distances.
struct InklingAttention {
  GroupedAttention shape;
  std::int64_t kernel = 0;
  std::int64_t relative_width = 0;
  std::int64_t distances = 0;
};

Steps inkling_attention(const InklingAttention& inkling) {
  const GroupedAttention& shape = inkling.shape;
  const std::int64_t keys = shape.key_value_heads * shape.width;
  Steps steps;
  for (const Step& step : attention(shape)) {
    if (step.kind == StepKind::attention) {
      steps.push_back({.kind = StepKind::attention,
                       .name = "position scores",
                       .outputs = inkling.relative_width * inkling.distances,
                       .heads = shape.heads,
                       .key_value_heads = shape.heads,
                       .score_width = inkling.relative_width,
                       .rows = inkling.distances});
    }
    steps.push_back(step);
    if (step.name != "value") continue;
    steps.push_back(beside(divided("position queries", shape.heads * inkling.relative_width,
                                   shape.hidden, false, shape.heads)));
    steps.push_back(short_memory(keys, inkling.kernel));
    steps.push_back(short_memory(keys, inkling.kernel));
  }
  return steps;
}

/// Widths of the dense feed-forward and of an expert. Where "dense_intermediate_size" stands,
/// "intermediate_size" is an expert's.
struct InklingWidths {
  std::int64_t dense = 0;
  std::int64_t expert = 0;
};

InklingWidths read_inkling_widths(Keys& keys) {
  const std::int64_t inner = keys.count("intermediate_size", 24576);
  if (keys.has("dense_intermediate_size")) {
    keys.ignore({"moe_intermediate_size"});
    return {keys.count("dense_intermediate_size", inner), inner};
  }
  return {inner, keys.count("moe_intermediate_size", 3072)};
}

std::vector<std::string> inkling_words(Keys& keys, int blocks) {
  const std::vector<std::int64_t> local = keys.numbers("local_layer_ids");
  const bool said = keys.has("local_layer_ids");
  return words_of_blocks(keys, "layer_types", blocks, {"hybrid", "hybrid_sliding"}, [&](int block) {
    const bool slides =
        said ? std::find(local.begin(), local.end(), block) != local.end() : (block + 1) % 6 != 0;
    return slides ? "hybrid_sliding" : "hybrid";
  });
}

}  // namespace

Blueprint read_inkling(Keys& keys) {
  const Sizes sizes = read_sizes(keys, {201024, 6144, 0, 66, 64, 8, 128, 131072});
  const InklingWidths widths = read_inkling_widths(keys);
  InklingAttention full{
      .shape = grouped(sizes, false),
      .kernel = keys.count("conv_kernel_size|sconv_kernel_size", 4),
      .relative_width = keys.count("d_rel", 16),
      .distances = keys.count("rel_extent", 1024),
  };
  full.shape.norms = QueryKeyNorm::shared;
  InklingAttention sliding = full;
  sliding.shape.heads = keys.count("swa_num_attention_heads", 64);
  sliding.shape.key_value_heads = keys.count("swa_num_key_value_heads", 16);
  sliding.shape.width = keys.count("swa_head_dim", 128);
  sliding.shape.window = keys.count("sliding_window_size|sliding_window", 512);
  sliding.distances = sliding.shape.window;
  if (sliding.shape.heads % sliding.shape.key_value_heads != 0) {
    keys.fail("swa_num_key_value_heads",
              concat(sliding.shape.key_value_heads, " key-value heads do not divide the ",
                     sliding.shape.heads, " attention heads"));
  }
  const std::int64_t shared = keys.count("n_shared_experts", 2);
  const MixtureShape mixing{.hidden = sizes.hidden,
                            .experts = keys.count("n_routed_experts|num_local_experts", 256),
                            .active = keys.count("num_experts_per_tok", 6),
                            .inner = widths.expert,
                            .idle_experts = shared,  // whose scores the router has
                            .shared_inner = shared * widths.expert,
                            .trained_scores = 1};
  const std::int64_t dense = keys.natural("dense_mlp_idx", 0);
  const std::vector<std::string> kinds =
      kinds_of_blocks(keys, sizes.blocks, [&](int block) { return block >= dense; });
  keys.ignore({"unpadded_vocab_size", "log_scaling_n_floor", "log_scaling_alpha", "route_scale",
               "shared_expert_sink", "rms_norm_eps_moe_gate", "chain_hidden_post_norm",
               "mtp_hidden_states_first", "mtp_local_layer_ids", "number_of_conv_states"});
  Blueprint blueprint = start(keys, sizes, false);
  blueprint.own_head = true;
  blueprint.numbers.feed_forward = widths.dense;
  blueprint.numbers.position = Transformer::Position::none;
  blueprint.embedding.push_back(norm("embedding norm", sizes.hidden));
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  Steps plain = feed_forward({.hidden = sizes.hidden, .inner = widths.dense});
  plain.push_back(numbers("multipliers", 1));
  const Steps sparse = mixture(mixing);
  const std::vector<std::string> words = inkling_words(keys, sizes.blocks);
  for (std::size_t block = 0; block < words.size(); ++block) {
    Steps attending = inkling_attention(words[block] == "hybrid" ? full : sliding);
    attending.push_back(short_memory(sizes.hidden, full.kernel));
    Steps feeding = kinds[block] == "dense" ? plain : sparse;
    feeding.push_back(short_memory(sizes.hidden, full.kernel));
    blueprint.blocks.push_back(mixed_block(sizes.hidden, attending, feeding));
  }
  return blueprint;
}

/// Values say which keys are seen; a trainable number for each channel scales what is added to.
Blueprint read_doge(Keys& keys) {
  keys.need({"intermediate_size"});
  keys.refuse_true("is_moe", "feed-forwards that look up rows of experts are not known here");
  keys.ignore({"num_experts", "num_experts_per_tok", "hidden_dropout"});
  const Sizes sizes = read_sizes(keys, {32768, 1024, 2048, 32, 8, 0, 0, 2048});
  const bool bias = keys.flag("attention_bias", false);
  const bool feeding_bias = keys.flag("mlp_bias", false);
  GroupedAttention shape = grouped(sizes, bias);
  shape.norms = QueryKeyNorm::shared;
  shape.rotary_width = rotary_width(keys, sizes.head_width);
  shape.window = keys.natural("sliding_window", 0);
  keys.ignore({"keep_window_size"});
  Blueprint blueprint = start(keys, sizes, false);
  Steps attending = attention(shape);
  const Step output = attending.back();
  attending.pop_back();
  const std::int64_t values = sizes.key_value_heads * sizes.head_width;
  attending.push_back(beside(product("step size", sizes.key_value_heads, values, bias)));
  attending.push_back(numbers("multipliers", sizes.key_value_heads));
  attending.push_back(output);
  attending.push_back(numbers("residual", sizes.hidden));
  Steps feeding = feed_forward({.hidden = sizes.hidden,
                                .inner = sizes.inner,
                                .up_bias = feeding_bias,
                                .down_bias = feeding_bias});
  feeding.push_back(numbers("residual", sizes.hidden));
  blueprint.blocks.assign(static_cast<std::size_t>(sizes.blocks),
                          mixed_block(sizes.hidden, attending, feeding));
  blueprint.notes.push_back(
      "attention is counted over all keys: the masks that values make leave out keys after their "
      "scores are computed");
  return blueprint;
}

/// Queries and outputs of attention are of the experts that a token passes, keys and values of all;
/// the feed-forward has as many experts.
Blueprint read_jetmoe(Keys& keys) {
  keys.need({"hidden_size", "num_hidden_layers", "num_key_value_heads", "vocab_size",
             "intermediate_size", "num_local_experts", "num_experts_per_tok"});
  Sizes sizes;
  sizes.hidden = keys.count("hidden_size", 2048);
  sizes.blocks = read_blocks(keys, "num_hidden_layers", 12);
  sizes.key_value_heads = keys.count("num_key_value_heads", 16);
  sizes.head_width = keys.count("kv_channels|head_dim", 128);
  sizes.inner = keys.count("intermediate_size", 5632);
  sizes.vocabulary = keys.count("vocab_size", 32000);
  sizes.positions = keys.count("max_position_embeddings", 4096);
  MixtureShape mixing{.hidden = sizes.hidden,
                      .experts = keys.count("num_local_experts", 8),
                      .active = keys.count("num_experts_per_tok", 2),
                      .inner = sizes.inner};
  sizes.heads = sizes.key_value_heads * mixing.active;
  keys.same("num_attention_heads", sizes.heads);
  keys.ignore({"aux_loss_coef"});
  Blueprint blueprint = start(keys, sizes, true);
  set_experts(keys, "num_experts_per_tok", blueprint.numbers, mixing);
  const std::int64_t width = sizes.key_value_heads * sizes.head_width;
  // The steps of a mixture around those of attention, which stand in its activation's place.
  MixtureShape of_heads = mixing;
  of_heads.inner = width;
  of_heads.gated = false;
  GroupedAttention shape = grouped(sizes, false);
  shape.rotary_width = sizes.head_width;
  Steps attending;
  for (const Step& step : mixture(of_heads)) {
    if (step.kind != StepKind::activation || step.name != "expert activation") {
      attending.push_back(step);
      continue;
    }
    for (Step inner : attention(shape)) {
      if (inner.name == "query" || inner.name == "attention output") continue;
      inner.shares_input = inner.shares_input || inner.name == "key";
      attending.push_back(inner);
    }
  }
  attending.push_back(numbers("expert down", sizes.hidden));
  Steps feeding = mixture(mixing);
  feeding.push_back(numbers("expert down", sizes.hidden));
  blueprint.blocks.assign(static_cast<std::size_t>(sizes.blocks),
                          mixed_block(sizes.hidden, attending, feeding));
  return blueprint;
}

/// Mistral's blocks whose feed-forward reads states scaled by how late they may be written.
Blueprint read_voxtral_realtime(Keys& keys) {
  constexpr std::int64_t rank = 32;  // the class has no key for it
  Blueprint blueprint = read_decoder({.model_type = "voxtral_realtime_text",
                                      .defaults = {32000, 4096, 14336, 32, 32, 8, 0, 131072},
                                      .attention = {.windows = Windows::every, .window = 4096},
                                      .feed_forward = {}},
                                     keys);
  const std::int64_t hidden = blueprint.numbers.hidden;
  Step down = product("norm gate", rank, hidden), up = product("norm gate", hidden, rank);
  down.of_sample = up.of_sample = true;
  for (Steps& block : blueprint.blocks) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      if (block[i].name != "second norm") continue;
      block.insert(block.begin() + static_cast<std::ptrdiff_t>(i) + 1, {down, up});
      break;
    }
  }
  return blueprint;
}

}  // namespace stagecraft
