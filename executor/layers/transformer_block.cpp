// A transformer block with norms before attention and feed-forward, GPT-2's or Llama's by the
// model's numbers, Qwen3's or OPT's if its steps are:
//
//   normed1 = norm1(x)                       normed2 = norm2(middle)
//   qkv     = normed1 QKV                    inner   = normed2 UP
//             (queries and keys normed if the form says so, and turned if rotary)
//   mixed   = attention(qkv)                 active  = gelu, swiglu or relu(inner)
//   middle  = x + mixed OUT                  y       = middle + active DOWN
//
// What waits between the passes, so that no product is computed twice:
//
//   for both                   normed1, mixed, middle, normed2, active, the norms' statistics
//   for both, of normed heads  queries and keys before their norms (`raw`), and these' statistics
//   for backward_input only    qkv, log_sum, inner     (`mixed` and `log_sum` can be dropped, and
//                                                       made again from qkv)
//   for backward_weight only   the gradients of normed1, qkv, middle, normed2, inner and y, and of
//                              normed queries and keys
//
// With norms behind them (OLMo 2):
//
//   qkv       = x QKV                        inner = middle UP
//   projected = attention(qkv) OUT           fed   = swiglu(inner) DOWN
//   middle    = x + norm1(projected)         y     = middle + norm2(fed)
//
// where what the norms are of waits instead of what they make, and its gradients instead of theirs.
//
// Of a piece of a sequence, attention also looks at the keys and values of the pieces before it:
// their qkv stays until they go backward, which they do after this one, with the gradients it
// leaves them.
//
// Tensor-parallel peers have some heads, and columns of UP, each; mixed OUT and active DOWN are
// sums over all of them, and so are the gradients of normed1 and normed2, and those of the norms of
// heads, whose weights all peers have. The rest they compute alike.

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "executor/layers/layers.hpp"
#include "executor/layers/parts.hpp"
#include "executor/layers/pieces.hpp"
#include "profiles/error.hpp"
#include "profiles/trained_form.hpp"

namespace stagecraft {

namespace {

// Places in Saved::tensors: those for both passes, then those for backward_input or
// backward_weight.
enum Kept : std::size_t {
  normed1,
  mean1,
  scale1,
  raw,
  raw_scale,
  mixed,
  middle,
  normed2,
  mean2,
  scale2,
  active
};
constexpr std::size_t for_both = active + 1;
// Of norms behind:
constexpr Kept projected = normed1;
constexpr Kept fed = normed2;
enum KeptForInput : std::size_t { qkv = for_both, log_sum, inner };
constexpr std::size_t for_input = inner + 1;
enum KeptForWeight : std::size_t {
  dnormed1 = for_both,
  dqkv,
  dheads,
  dmiddle,
  dnormed2,
  dinner,
  dy
};
constexpr std::size_t for_weight = dy + 1;
constexpr KeptForWeight dprojected = dnormed1;
constexpr KeptForWeight dfed = dnormed2;

class TransformerBlock : public TrainableLayer {
 public:
  TransformerBlock(const Transformer& transformer, const TrainedForm& form, const std::string& name,
                   int blocks, TensorPeers* peers)
      : peers_(peers), transformer_(transformer), relu_(form.relu), parts_(name, peers) {
    if (rotary()) frequencies_ = rotary_frequencies(transformer);
    const std::int64_t hidden = transformer.hidden;
    const std::int64_t query_width = transformer.heads * transformer.head_width;
    const std::int64_t key_value_width = transformer.key_value_heads * transformer.head_width;
    const std::int64_t inner = transformer.feed_forward;
    // Every block adds twice to the residual stream; as in GPT-2, the sum keeps its size.
    const double output_deviation = start_deviation / std::sqrt(2.0 * blocks);
    if (!form.norms_behind) norm1_ = parts_.norm("norm1", transformer);
    qkv_ = parts_.linear_of_columns("attention.qkv", hidden,
                                    {query_width, key_value_width, key_value_width},
                                    transformer.attention_bias, start_deviation);
    add_head_norms(form.query_key_norm);
    output_ = parts_.linear_of_rows("attention.output", query_width, hidden,
                                    transformer.output_bias, output_deviation);
    if (form.norms_behind) norm1_ = parts_.norm("attention.norm", transformer);
    if (!form.norms_behind) norm2_ = parts_.norm("norm2", transformer);
    up_ = parts_.linear_of_columns("feed_forward.up", hidden,
                                   gated() ? std::vector{inner, inner} : std::vector{inner},
                                   transformer.feed_forward_bias, start_deviation);
    down_ = parts_.linear_of_rows("feed_forward.down", inner, hidden, transformer.feed_forward_bias,
                                  output_deviation);
    if (form.norms_behind) norm2_ = parts_.norm("feed_forward.norm", transformer);
    take_share();
  }

  std::vector<ParameterSpec> parameters() const override { return parts_.specs(); }

  Tensor forward(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                 const Tensor& input, Saved& saved) const override {
    saved.tensors.assign(for_input, {});
    auto& kept = saved.tensors;
    keep(kept, normed1, norm(backend, norm1_, parameters, input));
    kept[qkv] = linear(backend, qkv_, parameters, kept[normed1]);
    norm_heads(backend, parameters, samples, kept);
    attend(backend, samples, saved);
    kept[middle] = linear_of_rows(backend, output_, parameters, kept[mixed], input, peers_);

    keep(kept, normed2, norm(backend, norm2_, parameters, kept[middle]));
    Activated activated = activate(backend, parameters, kept[normed2]);
    kept[inner] = std::move(activated.before);
    kept[active] = std::move(activated.y);
    return linear_of_rows(backend, down_, parameters, kept[active], kept[middle], peers_);
  }

  Tensor backward_input(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                        const Tensor& input, const Tensor& output_gradient,
                        Saved& saved) const override {
    assert(saved.tensors.size() == for_input);
    auto kept = std::exchange(saved.tensors, {});
    std::vector<Tensor> gradients(for_weight);
    gradients[dy] = output_gradient;
    gradients[dinner] = activate_input(backend, parameters, output_gradient, kept);
    kept[inner] = {};
    gradients[dnormed2] =
        linear_input_of_columns(backend, up_, parameters, gradients[dinner], peers_);
    gradients[dmiddle] =
        norm_input_and_residual(backend, norm2_, parameters, gradients[dnormed2], kept[middle],
                                normed_of(kept, normed2), output_gradient);

    gradients[dqkv] = attend_input(backend, samples,
                                   linear_input(backend, output_, parameters, gradients[dmiddle]),
                                   kept, saved.pieces);
    kept[qkv] = kept[log_sum] = {};
    norm_heads_input(backend, parameters, samples, kept, gradients);
    gradients[dnormed1] =
        linear_input_of_columns(backend, qkv_, parameters, gradients[dqkv], peers_);
    Tensor dinput = norm_input_and_residual(backend, norm1_, parameters, gradients[dnormed1], input,
                                            normed_of(kept, normed1), gradients[dmiddle]);
    std::move(kept.begin(), kept.begin() + for_both, gradients.begin());
    saved.tensors = std::move(gradients);
    return dinput;
  }

  bool drop_attention(Saved& saved) const override {
    saved.tensors[mixed] = saved.tensors[log_sum] = {};
    return true;
  }

  void attend_again(Backend& backend, const Samples& samples, Saved& saved) const override {
    mix(backend, attention_shape(samples), saved);
  }

  void backward_weight(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                       const Tensor& input, Saved& saved) const override {
    assert(saved.tensors.size() == for_weight);
    const auto kept = std::exchange(saved.tensors, {});
    linear_weight(backend, down_, parameters, kept[active], kept[dy]);
    linear_weight(backend, up_, parameters, kept[normed2], kept[dinner]);
    norm_weight(backend, norm2_, parameters, kept[dnormed2], kept[middle],
                normed_of(kept, normed2));
    linear_weight(backend, output_, parameters, kept[mixed], kept[dmiddle]);
    norm_heads_weight(backend, parameters, samples, kept);
    linear_weight(backend, qkv_, parameters, kept[normed1], kept[dqkv]);
    norm_weight(backend, norm1_, parameters, kept[dnormed1], input, normed_of(kept, normed1));
  }

 protected:
  void add_head_norms(QueryKeyNorm kind) {
    if (kind == QueryKeyNorm::none) return;
    const bool each = kind == QueryKeyNorm::shared;
    const std::int64_t width = transformer_.head_width;
    query_norm_ = parts_.rms_norm("attention.query_norm", each ? width : transformer_.heads * width,
                                  transformer_.norm_epsilon);
    key_norm_ =
        parts_.rms_norm("attention.key_norm", each ? width : transformer_.key_value_heads * width,
                        transformer_.norm_epsilon);
  }

  /// From here on these are the numbers of this peer's heads and inner columns.
  void take_share() {
    if (peers_ == nullptr) return;
    transformer_.heads /= peers_->ranks();
    transformer_.key_value_heads /= peers_->ranks();
    const auto [first, end] = share_of(transformer_.feed_forward, peers_);
    transformer_.feed_forward = end - first;
  }

  bool gated() const { return transformer_.activation == Transformer::FeedForward::swiglu; }
  bool rotary() const { return transformer_.position == Transformer::Position::rotary; }

  static void keep(std::vector<Tensor>& kept, Kept first, Normed&& normed) {
    kept[first] = std::move(normed.y);
    kept[first + 1] = std::move(normed.mean);
    kept[first + 2] = std::move(normed.scale);
  }

  static Normed normed_of(const std::vector<Tensor>& kept, Kept first) {
    return {kept[first], kept[first + 1], kept[first + 2]};
  }

  AttentionShape attention_shape(const Samples& samples) const {
    return {.samples = samples.count,
            .sequence = samples.sequence,
            .heads = transformer_.heads,
            .key_value_heads = transformer_.key_value_heads,
            .head_width = transformer_.head_width,
            .causal = true,
            .past = samples.past};
  }

  void norm_heads(Backend& backend, std::span<const Parameter> parameters, const Samples& samples,
                  std::vector<Tensor>& kept) const {
    if (!query_norm_) return;
    const AttentionShape shape = attention_shape(samples);
    const Tensor& query = parameters[query_norm_->weight].weight;
    const Tensor& key = parameters[key_norm_->weight].weight;
    const std::int64_t queries = shape.heads * shape.head_width;
    const std::int64_t keys = shape.key_value_heads * shape.head_width;
    const std::int64_t norms = queries / query.elements() + keys / key.elements();
    const Precision precision = kept[qkv].precision;
    kept[raw] = backend.allocate({shape.samples, shape.sequence, queries + keys}, precision);
    kept[raw_scale] =
        backend.allocate({shape.samples, shape.sequence, norms}, precision_of_sums(precision));
    backend.norm_queries_and_keys(kept[qkv], shape, query, key, query_norm_->epsilon, kept[raw],
                                  kept[raw_scale]);
  }

  void norm_heads_input(Backend& backend, std::span<const Parameter> parameters,
                        const Samples& samples, const std::vector<Tensor>& kept,
                        std::vector<Tensor>& gradients) const {
    if (!query_norm_) return;
    gradients[dheads] = backend.allocate(kept[raw].shape, kept[raw].precision);
    backend.norm_queries_and_keys_input(gradients[dqkv], attention_shape(samples), kept[raw],
                                        kept[raw_scale], parameters[query_norm_->weight].weight,
                                        parameters[key_norm_->weight].weight, gradients[dheads]);
  }

  /// Each peer has found the gradients of its own heads only.
  void norm_heads_weight(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                         const std::vector<Tensor>& kept) const {
    if (!query_norm_) return;
    Tensor& query = parameters[query_norm_->weight].gradient;
    Tensor& key = parameters[key_norm_->weight].gradient;
    const auto add_to = [&](Tensor& dquery, Tensor& dkey) {
      backend.norm_queries_and_keys_weight(kept[dheads], attention_shape(samples), kept[raw],
                                           kept[raw_scale], dquery, dkey);
    };
    if (peers_ == nullptr) return add_to(query, key);
    Tensor of_query = backend.allocate(query.shape, query.precision);
    Tensor of_key = backend.allocate(key.shape, key.precision);
    backend.zero(of_query);
    backend.zero(of_key);
    add_to(of_query, of_key);
    for (auto& [own, sum] : {std::pair(&of_query, &query), std::pair(&of_key, &key)}) {
      peers_->sum(backend, *own);
      backend.add(*own, *sum);
    }
  }

  void attend(Backend& backend, const Samples& samples, Saved& saved) const {
    const AttentionShape shape = attention_shape(samples);
    if (rotary()) backend.rotary(saved.tensors[qkv], shape, frequencies_, false);
    mix(backend, shape, saved);
    if (saved.pieces != nullptr) keep_for_later(shape, saved.tensors[qkv], *saved.pieces);
  }

  /// Of queries, keys and values that are turned already.
  static void mix(Backend& backend, const AttentionShape& shape, Saved& saved) {
    auto& kept = saved.tensors;
    const Precision precision = kept[qkv].precision;
    kept[mixed] = backend.allocate({shape.samples, shape.sequence, shape.heads * shape.head_width},
                                   precision);
    kept[log_sum] = backend.allocate({shape.samples, shape.heads, shape.sequence},
                                     precision_of_sums(precision));
    backend.attention(with_past(backend, shape, kept[qkv], saved.pieces), shape, kept[mixed],
                      kept[log_sum]);
  }

  Tensor attend_input(Backend& backend, const Samples& samples, const Tensor& dmixed,
                      const std::vector<Tensor>& kept, SequencePieces* pieces) const {
    const AttentionShape shape = attention_shape(samples);
    const Tensor all = with_past(backend, shape, kept[qkv], pieces);
    Tensor gradient = backend.allocate(all.shape, all.precision);
    backend.attention_input(dmixed, all, kept[mixed], kept[log_sum], shape, gradient);
    if (pieces != nullptr) gradient = leave_past(backend, shape, gradient, *pieces);
    if (rotary()) backend.rotary(gradient, shape, frequencies_, true);
    return gradient;
  }

  Activated activate(Backend& backend, std::span<const Parameter> parameters,
                     const Tensor& x) const {
    if (relu_) return activate_by_relu(backend, parameters, x);
    if (!gated()) return linear_gelu(backend, up_, parameters, x);
    Activated result{.before = linear(backend, up_, parameters, x), .y = {}};
    std::vector<std::int64_t> shape = result.before.shape;
    shape.back() = transformer_.feed_forward;
    result.y = backend.allocate(std::move(shape), x.precision);
    backend.swiglu(result.before, result.y);
    return result;
  }

  /// In place: `before` is not needed again.
  Activated activate_by_relu(Backend& backend, std::span<const Parameter> parameters,
                             const Tensor& x) const {
    Activated result{.before = {}, .y = linear(backend, up_, parameters, x)};
    backend.relu(result.y);
    return result;
  }

  /// From the gradient of DOWN's output to that of UP's.
  Tensor activate_input(Backend& backend, std::span<const Parameter> parameters, const Tensor& dy,
                        const std::vector<Tensor>& kept) const {
    if (relu_) {
      const Tensor gradient = linear_input(backend, down_, parameters, dy);
      Tensor dx = backend.allocate(gradient.shape, gradient.precision);
      backend.relu_input(gradient, kept[active], dx);
      return dx;
    }
    const Tensor& before = kept[inner];
    if (!gated()) return linear_gelu_input(backend, down_, parameters, dy, before);
    const Tensor gradient = linear_input(backend, down_, parameters, dy);
    Tensor dx = backend.allocate(before.shape, before.precision);
    backend.swiglu_input(gradient, before, dx);
    return dx;
  }

  TensorPeers* peers_;
  Norm norm1_;
  Linear qkv_;
  Linear output_;
  Norm norm2_;
  Linear up_;
  Linear down_;

 private:
  Transformer transformer_;
  bool relu_;  // else the transformer's activation
  std::vector<double> frequencies_;
  PartList parts_;
  std::optional<Norm> query_norm_;  // and keys', too, or neither
  std::optional<Norm> key_norm_;
};

/// Whole on one device: its norms of queries and keys look at all heads.
class NormsBehindBlock final : public TransformerBlock {
 public:
  using TransformerBlock::TransformerBlock;

  Tensor forward(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                 const Tensor& input, Saved& saved) const override {
    saved.tensors.assign(for_input, {});
    auto& kept = saved.tensors;
    kept[qkv] = linear(backend, qkv_, parameters, input);
    norm_heads(backend, parameters, samples, kept);
    attend(backend, samples, saved);
    kept[projected] = linear(backend, output_, parameters, kept[mixed]);
    kept[middle] = norm_onto(backend, norm1_, parameters, input, kept, projected);

    Activated activated = activate(backend, parameters, kept[middle]);
    kept[inner] = std::move(activated.before);
    kept[active] = std::move(activated.y);
    kept[fed] = linear(backend, down_, parameters, kept[active]);
    return norm_onto(backend, norm2_, parameters, kept[middle], kept, fed);
  }

  Tensor backward_input(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                        const Tensor&, const Tensor& output_gradient, Saved& saved) const override {
    assert(saved.tensors.size() == for_input);
    auto kept = std::exchange(saved.tensors, {});
    std::vector<Tensor> gradients(for_weight);
    gradients[dy] = output_gradient;
    gradients[dfed] = norm_input(backend, norm2_, parameters, output_gradient, kept[fed],
                                 normed_of(kept, normed2));
    gradients[dinner] = activate_input(backend, parameters, gradients[dfed], kept);
    kept[inner] = {};
    gradients[dmiddle] = linear_input(backend, up_, parameters, gradients[dinner]);
    backend.add(output_gradient, gradients[dmiddle]);

    gradients[dprojected] = norm_input(backend, norm1_, parameters, gradients[dmiddle],
                                       kept[projected], normed_of(kept, normed1));
    gradients[dqkv] = attend_input(
        backend, samples, linear_input(backend, output_, parameters, gradients[dprojected]), kept,
        saved.pieces);
    kept[qkv] = kept[log_sum] = {};
    norm_heads_input(backend, parameters, samples, kept, gradients);
    Tensor dinput = linear_input(backend, qkv_, parameters, gradients[dqkv]);
    backend.add(gradients[dmiddle], dinput);
    std::move(kept.begin(), kept.begin() + for_both, gradients.begin());
    saved.tensors = std::move(gradients);
    return dinput;
  }

  void backward_weight(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                       const Tensor& input, Saved& saved) const override {
    assert(saved.tensors.size() == for_weight);
    const auto kept = std::exchange(saved.tensors, {});
    norm_weight(backend, norm2_, parameters, kept[dy], kept[fed], normed_of(kept, normed2));
    linear_weight(backend, down_, parameters, kept[active], kept[dfed]);
    linear_weight(backend, up_, parameters, kept[middle], kept[dinner]);
    norm_weight(backend, norm1_, parameters, kept[dmiddle], kept[projected],
                normed_of(kept, normed1));
    linear_weight(backend, output_, parameters, kept[mixed], kept[dprojected]);
    norm_heads_weight(backend, parameters, samples, kept);
    linear_weight(backend, qkv_, parameters, input, kept[dqkv]);
  }

 private:
  /// x + the norm of what is kept at `of`, whose statistics come behind it.
  static Tensor norm_onto(Backend& backend, const Norm& part, std::span<const Parameter> parameters,
                          const Tensor& x, std::vector<Tensor>& kept, Kept of) {
    Normed normed = norm(backend, part, parameters, kept[of]);
    kept[of + 1] = std::move(normed.mean);
    kept[of + 2] = std::move(normed.scale);
    backend.add(x, normed.y);
    return std::move(normed.y);
  }
};

}  // namespace

std::unique_ptr<TrainableLayer> make_transformer_block(const Model& model, int index,
                                                       TensorPeers* peers) {
  const Transformer& transformer = trainable_transformer(model, index);
  const Layer& layer = model.layers[static_cast<std::size_t>(index)];
  if (peers != nullptr && transformer.key_value_heads % peers->ranks() != 0) {
    fail("cannot split layer \"", layer.name, "\" of ", model.name, ": its ",
         transformer.key_value_heads, " key-value heads do not divide among ", peers->ranks(),
         " tensor-parallel devices");
  }
  const TrainedForm form = trained_form(transformer, layer).value_or(TrainedForm{});
  if (peers != nullptr && form.query_key_norm == QueryKeyNorm::together) {
    fail("cannot split layer \"", layer.name, "\" of ", model.name,
         ": its norms of queries and keys look at all heads, which tensor-parallel devices divide");
  }
  const auto blocks = std::ranges::count(model.layers, LayerKind::transformer, &Layer::kind);
  const auto count = static_cast<int>(blocks);
  if (form.norms_behind)
    return std::make_unique<NormsBehindBlock>(transformer, form, layer.name, count, peers);
  return std::make_unique<TransformerBlock>(transformer, form, layer.name, count, peers);
}

}  // namespace stagecraft
