// The tensors a transformer keeps from forward to backward, per token and in elements (h hidden,
// q all queries, k all keys, f inner width, u = 1 or 2 projections up, V vocabulary):
//
//   norm 1 out    h     queries, keys, values  q + 2k    attention out  q     first sum  h
//   norm 2 out    h     up (and gate) out      u f       activation out f     block out  h
//
// The scores are not among them: attention is taken to recompute them from 4-byte row statistics
// (FlashAttention), so there is no term in the square of the sequence. Nor are dropout masks. For
// GPT this is 16 h elements: the 34 sbh bytes of Korthikanti et al. 2022 without their two masks.
// A block's input is not counted, since it is the output of the layer before; its own output is.
//
// A tensor-parallel degree t divides heads, inner width and vocabulary, with their weights and
// activations, and not what is h wide: that only sequence parallelism divides (Korthikanti et al.
// 2022: 10 + 24/t bytes an element of hidden state become 34/t). Context parallelism divides all
// tokens. The collectives of such splits are not part of a layer's cost.

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/estimate.hpp"
#include "profiles/kernel_times.hpp"
#include "profiles/operations.hpp"
#include "profiles/trained_form.hpp"
#include "profiles/transformer.hpp"

namespace stagecraft {

namespace {

constexpr Bytes statistic = 4;  ///< norms, softmax and logits keep their statistics in fp32

std::int64_t divide_up(std::int64_t value, std::int64_t parts) {
  return (value + parts - 1) / parts;
}

/// One device's share of a transformer's widths.
struct Share {
  std::int64_t hidden, queries, keys, inner, up, vocabulary, heads;
};

Share share_of(const Transformer& transformer, int degree) {
  if (transformer.heads % degree != 0) {
    fail("a tensor-parallel degree of ", degree, " does not divide the ", transformer.heads,
         " attention heads");
  }
  const std::int64_t groups = transformer.key_value_heads;
  if (groups % degree != 0 && degree % groups != 0) {
    fail("a tensor-parallel degree of ", degree, " does not divide the ", groups,
         " key-value heads");
  }
  const bool gated = transformer.activation == Transformer::FeedForward::swiglu;
  const std::int64_t inner = divide_up(transformer.feed_forward, degree);
  return {.hidden = transformer.hidden,
          .queries = transformer.heads / degree * transformer.head_width,
          // With fewer key-value heads than devices, each device holds a copy of one.
          .keys = divide_up(groups, degree) * transformer.head_width,
          .inner = inner,
          .up = gated ? 2 * inner : inner,
          .vocabulary = divide_up(transformer.vocabulary, degree),
          .heads = transformer.heads / degree};
}

/// The transformer that one device sees; its parameter count follows.
Transformer split(const Transformer& transformer, int degree) {
  const Share share = share_of(transformer, degree);
  Transformer part = transformer;
  part.heads = share.heads;
  part.key_value_heads = share.keys / transformer.head_width;
  part.feed_forward = share.inner;
  part.vocabulary = share.vocabulary;
  return part;
}

std::int64_t norm_statistics(const Transformer& transformer) {
  return transformer.norm == Transformer::Norm::layer_norm ? 2 : 1;
}

/// Tokens of a microbatch on one device: in the products, and between them.
struct Tokens {
  std::int64_t all = 0;
  std::int64_t spread = 0;
};

Tokens tokens_of(const CostSetting& setting) {
  const Parallelism& parallelism = setting.parallelism;
  const std::int64_t all = setting.microbatch * setting.sequence / parallelism.context;
  return {all, parallelism.sequence ? divide_up(all, setting.tensor_parallel) : all};
}

void add_block_memory(LayerWork& work, const Transformer& transformer, const Share& share,
                      const Tokens& counts, Bytes element) {
  const std::int64_t tokens = counts.all;
  const std::int64_t kept = 2 * share.queries + 2 * share.keys + share.up + share.inner;
  const std::int64_t norms = 2 * norm_statistics(transformer);
  work.input = counts.spread * share.hidden * element;
  work.output = work.input;
  work.saved = counts.spread * (4 * share.hidden * element + norms * statistic) +
               tokens * (kept * element + share.heads * statistic);
  work.rebuilt = tokens * (share.queries * element + share.heads * statistic);
  // Weight gradients need the input of each product (norm outputs, attention out, activation out)
  // and of the second norm, and the gradient of the output of each product and norm.
  const std::int64_t inputs = share.queries + share.inner;
  const std::int64_t gradients = share.queries + 2 * share.keys + share.up;
  work.saved_for_weight = counts.spread * (7 * share.hidden * element + norms * statistic) +
                          tokens * (inputs + gradients) * element;
  // What is h wide is gathered for the products.
  work.workspace = tokens * (share.up + 2 * share.hidden) * element;
}

/// Where a model answers: logits of last tokens alone, which each peer has whole.
void add_memory_of_last_logits(LayerWork& work, const Transformer& transformer, const Share& share,
                               const Tokens& counts, std::int64_t last, Bytes element) {
  const std::int64_t rows = std::min(last, counts.all);
  work.input = counts.spread * share.hidden * element;
  work.output = rows * statistic;
  work.saved = counts.spread * (share.hidden * element + norm_statistics(transformer) * statistic) +
               rows * (share.hidden * element + transformer.vocabulary * statistic) + work.output;
  work.workspace = rows * transformer.vocabulary * element;
}

void add_head_memory(LayerWork& work, const Transformer& transformer, const Share& share,
                     const Tokens& counts, const CostSetting& setting, Bytes element) {
  if (const std::int64_t last = last_tokens(setting); last > 0)
    return add_memory_of_last_logits(work, transformer, share, counts, last, element);
  const std::int64_t tokens = counts.all;
  const FusedLoss loss = setting.kernels.fused_loss;
  const bool fused = loss == FusedLoss::te;
  // The norm's output and the logits' softmax; BERT has a product, GELU and norm before these.
  const std::int64_t kept = (transformer.token_types ? 3 : 1) * share.hidden;
  work.input = counts.spread * share.hidden * element;
  work.output = setting.microbatch * statistic;
  work.saved = counts.spread * (kept * element + norm_statistics(transformer) * statistic) +
               tokens * share.vocabulary * (fused ? element : statistic) + work.output;
  work.saved_for_weight = (counts.spread * share.hidden + tokens * share.vocabulary) * element;
  // Fused, the gradient takes the logits' place; compiled, exponentials are beside them.
  const Bytes copy = loss == FusedLoss::native ? statistic : 0;
  work.workspace = fused ? 0 : tokens * share.vocabulary * (element + copy);
}

void add_embedding_memory(LayerWork& work, const Share& share, const Tokens& counts,
                          Bytes element) {
  constexpr Bytes token = 4;
  work.input = counts.all * token;
  work.output = counts.spread * share.hidden * element;
  work.saved = work.output;
  work.saved_for_weight = work.output;
}

/// Beside those: queries and keys before their norms and, in between the backward passes, the
/// gradients behind them.
void add_memory_of_head_norms(LayerWork& work, const Share& share, const TrainedForm& form,
                              std::int64_t head_width, std::int64_t tokens, Bytes element) {
  if (form.query_key_norm == QueryKeyNorm::none) return;
  const std::int64_t normed = share.queries + share.keys;
  const bool each = form.query_key_norm == QueryKeyNorm::shared;
  const std::int64_t statistics = each ? share.heads + share.keys / head_width : 2;
  work.saved += tokens * (normed * element + statistics * statistic);
  work.saved_for_weight += tokens * (2 * normed * element + statistics * statistic);
}

/// Layers that the tables above do not describe: those with steps, experts, latent attention,
/// images, prediction.
bool is_special(const Transformer& transformer, const Layer& layer) {
  const LayerKind kind = layer.kind;
  return !layer.steps.empty() || transformer.latent || transformer.patches ||
         kind == LayerKind::expert_transformer || kind == LayerKind::prediction;
}

/// The figures as sums over a layer's operations.
LayerWork work_of_operations(const Transformer& transformer, const Layer& of,
                             const CostSetting& setting) {
  const LayerOperations layer = layer_operations(transformer, of, work_setting(setting));
  const LayerKind kind = of.kind;
  LayerWork work;
  for (const Operation& operation : layer.operations) {
    switch (operation.pass) {
      case Pass::forward: work.flops_forward += operation.flops; break;
      case Pass::backward_input: work.flops_backward_input += operation.flops; break;
      case Pass::backward_weight: work.flops_backward_weight += operation.flops; break;
    }
  }
  const Bytes element = element_bytes(setting.precision);
  work.weights = layer.weights;
  work.expert_weights = layer.expert_weights;
  work.input = layer.input;
  work.output = kind == LayerKind::head ? setting.microbatch * statistic
                                        : tokens_of(setting).spread * transformer.hidden *
                                              transformer.streams * element;
  work.saved = std::max(Bytes{0}, kept_bytes(layer, Recomputed::none) - layer.input) + work.output;
  for (const Kept& tensor : layer.kept) {
    if (tensor.rebuilt) work.rebuilt += tensor.bytes;
  }
  work.saved_for_weight = work.saved - work.output;
  work.workspace = layer.working;
  return work;
}

/// Norms behind attention and feed-forward as well as before them: what these norms are of, with
/// its statistics, and both gradients. Attention and feed-forward of one input: no sum between
/// them.
void add_memory_of_places(LayerWork& work, const Transformer& transformer, const TrainedForm& form,
                          const Tokens& counts, Bytes element) {
  const Bytes row = transformer.hidden * element;
  if (form.norms_before && form.norms_behind) {
    const Bytes statistics = 2 * norm_statistics(transformer) * statistic;
    work.saved += counts.spread * (2 * row + statistics);
    work.saved_for_weight += counts.spread * (4 * row + statistics);
  }
  if (transformer.arithmetic.parallel_residual) {
    work.saved -= counts.spread * row;
    work.saved_for_weight -= 2 * counts.spread * row;
  }
}

/// Instead of the feed-forward's: rows of each token's experts, probabilities, and the choice; in
/// between the backward passes gradients, too. The room that products take has rows gathered for an
/// expert, at most all.
void replace_memory_of_feed_forward(LayerWork& work, const Transformer& transformer,
                                    const Share& share, std::int64_t tokens, Bytes element) {
  const Experts& experts = *transformer.experts;
  const std::int64_t rows = tokens * experts.active;
  const Bytes choice = tokens * (experts.count + experts.active) * element;
  const Bytes dense = tokens * (share.up + share.inner) * element;
  work.saved += 3 * rows * experts.feed_forward * element + choice - dense;
  work.saved_for_weight +=
      3 * rows * experts.feed_forward * element + choice + tokens * experts.count * element - dense;
  work.workspace = tokens *
                   (2 * experts.active * experts.feed_forward + 3 * share.hidden +
                    experts.feed_forward + experts.active) *
                   element;
}

/// What the executor computes on CPUs only is in 16 bits another framework's.
bool is_elsewhere(const Transformer& transformer, const Layer& layer, Precision precision) {
  const bool on_cpus = precision == Precision::float32 || precision == Precision::float64;
  return !on_cpus && !only_on_cpus(transformer, layer).empty();
}

/// Of layers that the executor computes, all to the byte.
void set_memory_of_trained(LayerWork& work, const Transformer& transformer, const Layer& layer,
                           const CostSetting& setting) {
  const auto form = trained_form(transformer, layer);
  if (is_block(layer) ? !form.has_value() : !has_plain_steps(transformer, layer)) return;
  if (is_elsewhere(transformer, layer, setting.precision)) return;
  const Share share = share_of(transformer, setting.tensor_parallel);
  const Bytes element = element_bytes(setting.precision);
  const Tokens tokens = tokens_of(setting);
  if (layer.kind == LayerKind::embedding) return add_embedding_memory(work, share, tokens, element);
  if (layer.kind == LayerKind::head)
    return add_head_memory(work, transformer, share, tokens, setting, element);
  add_block_memory(work, transformer, share, tokens, element);
  // Nothing but its result is needed of max(0, x).
  if (form->relu) work.saved -= tokens.all * share.up * element;
  add_memory_of_places(work, transformer, *form, tokens, element);
  if (form->experts) replace_memory_of_feed_forward(work, transformer, share, tokens.all, element);
  add_memory_of_head_norms(work, share, *form, transformer.head_width, tokens.all, element);
}

}  // namespace

WorkSetting work_setting(const CostSetting& setting) {
  return {
      .microbatch = setting.microbatch,
      .sequence = setting.sequence,
      .tensor_parallel = setting.tensor_parallel,
      .sequence_parallel = setting.parallelism.sequence,
      .context_parallel = setting.parallelism.context,
      .expert_parallel = setting.parallelism.expert,
      .expert_tensor_parallel = setting.parallelism.expert_tensor,
      .expert_load = setting.parallelism.expert_load,
      .precision = setting.precision,
      .framework = setting.kernels.framework,
      .dispatcher = setting.kernels.dispatcher,
      .float8_recipe = setting.kernels.float8_recipe.value_or(usual_float8_recipe(setting.device)),
      .fused_loss = setting.kernels.fused_loss,
      .router_fusion = setting.kernels.router_fusion,
      .last_tokens = last_tokens(setting)};
}

std::int64_t last_tokens(const CostSetting& setting) {
  if (setting.chunk == 0) return 0;
  return setting.ends > 0 ? setting.ends : setting.microbatch;
}

LayerWork transformer_work(const Transformer& transformer, const Layer& layer,
                           const CostSetting& setting) {
  const LayerKind kind = layer.kind;
  constexpr std::int64_t most_tokens = std::int64_t{1} << 32U;
  if (setting.microbatch > most_tokens / setting.sequence) {
    fail("a microbatch of ", setting.microbatch, " x ", setting.sequence, " tokens is too large");
  }
  if (is_special(transformer, layer)) {
    LayerWork work = work_of_operations(transformer, layer, setting);
    if (!layer.steps.empty() || kind == LayerKind::expert_transformer)
      set_memory_of_trained(work, transformer, layer, setting);
    return work;
  }
  const Share share = share_of(transformer, setting.tensor_parallel);
  const Transformer part = split(transformer, setting.tensor_parallel);
  const Bytes element = element_bytes(setting.precision);
  const Tokens tokens = tokens_of(setting);
  const TransformerFlops flops = layer_flops(part, kind, setting.sequence);
  const auto samples = static_cast<double>(setting.microbatch) / setting.parallelism.context;
  LayerWork work;
  work.flops_forward = samples * (flops.linear + flops.attention);
  // Backward of the scores: four products and one recomputed, where forward has two.
  work.flops_backward_input = samples * (flops.linear + 2.5 * flops.attention);
  work.flops_backward_weight = samples * flops.linear;
  work.weights = layer_parameters(part, kind);
  if (kind == LayerKind::head) {
    work.weights += tied_parameters(part);
    add_head_memory(work, transformer, share, tokens, setting, element);
  } else if (kind == LayerKind::embedding) {
    add_embedding_memory(work, share, tokens, element);
  } else {
    add_block_memory(work, transformer, share, tokens, element);
  }
  return work;
}

}  // namespace stagecraft
