// Attention between a product for queries, keys and values and one of its output:
//
//   qkv   = x QKV        (queries and keys normed if the form says so, and turned if rotary)
//   mixed = attention(qkv)
//   y     = mixed OUT
//
// Of a piece of a sequence, attention also looks at the keys and values of the pieces before it:
// their qkv stays until they go backward, which they do after this one, with the gradients it
// leaves them.
//
// Tensor-parallel peers have some heads each; mixed OUT is a sum over all of them, and so are the
// gradients of x and of the norms of heads, whose weights all peers have.

#include <cmath>
#include <utility>

#include "executor/layers/pieces.hpp"
#include "executor/layers/sublayer.hpp"

namespace stagecraft {

namespace {

class Attention final : public AttentionSublayer {
 public:
  Attention(const Transformer& transformer, const TrainedForm& form, double output_deviation,
            PartList& parts, TensorPeers* peers)
      : peers_(peers),
        rotary_(transformer.position == Transformer::Position::rotary),
        shape_{.heads = transformer.heads,
               .key_value_heads = transformer.key_value_heads,
               .head_width = transformer.head_width,
               .causal = true,
               .window = form.window,
               .score_width = transformer.arithmetic.score_width} {
    if (rotary_) frequencies_ = rotary_frequencies(transformer, form.window > 0);
    const std::int64_t hidden = transformer.hidden;
    const std::int64_t query_width = transformer.heads * transformer.head_width;
    const std::int64_t key_value_width = transformer.key_value_heads * transformer.head_width;
    qkv_ = parts.linear_of_columns("attention.qkv", hidden,
                                   {query_width, key_value_width, key_value_width},
                                   transformer.attention_bias, start_deviation);
    add_head_norms(transformer, form.query_key_norm, parts);
    output_ = parts.linear_of_rows("attention.output", query_width, hidden, transformer.output_bias,
                                   output_deviation);
    if (peers_ == nullptr) return;
    shape_.heads /= peers_->ranks();
    shape_.key_value_heads /= peers_->ranks();
  }

  std::size_t slots() const override { return attention_slots; }

  Tensor forward(const PassSetting& pass, const Tensor& x, const Tensor& residual,
                 std::span<Tensor> kept) const override {
    kept[qkv] = linear(pass.backend, qkv_, pass.parameters, x);
    norm_heads(pass, kept);
    const AttentionShape shape = shape_of(pass.samples);
    if (rotary_) pass.backend.rotary(kept[qkv], shape, frequencies_, false);
    attend_again(pass, kept);
    if (pass.pieces != nullptr) keep_for_later(shape, kept[qkv], *pass.pieces);
    return linear_of_rows(pass.backend, output_, pass.parameters, kept[mixed], residual, peers_);
  }

  void drop(std::span<Tensor> kept) const override { kept[mixed] = kept[log_sum] = {}; }

  void attend_again(const PassSetting& pass, std::span<Tensor> kept) const override {
    const AttentionShape shape = shape_of(pass.samples);
    const Precision precision = kept[qkv].precision;
    kept[mixed] = pass.backend.allocate(
        {shape.samples, shape.sequence, shape.heads * shape.head_width}, precision);
    kept[log_sum] = pass.backend.allocate({shape.samples, shape.heads, shape.sequence},
                                          precision_of_sums(precision));
    pass.backend.attention(with_past(pass.backend, shape, kept[qkv], pass.pieces), shape,
                           kept[mixed], kept[log_sum]);
  }

  Tensor backward_input(const PassSetting& pass, const Tensor& dy,
                        std::span<Tensor> kept) const override {
    Tensor gradient =
        attend_input(pass, linear_input(pass.backend, output_, pass.parameters, dy), kept);
    kept[qkv] = kept[log_sum] = {};
    kept[dqkv] = std::move(gradient);
    norm_heads_input(pass, kept);
    return linear_input_of_columns(pass.backend, qkv_, pass.parameters, kept[dqkv], peers_);
  }

  void backward_weight(const PassSetting& pass, const Tensor& x, const Tensor& dy,
                       std::span<Tensor> kept) const override {
    linear_weight(pass.backend, output_, pass.parameters, kept[mixed], dy);
    norm_heads_weight(pass, kept);
    linear_weight(pass.backend, qkv_, pass.parameters, x, kept[dqkv]);
  }

 private:
  // Queries and keys before their norms (`raw`) with these' statistics, if there are norms, and
  // `mixed` wait for both backward passes, the rest for one: backward_input leaves gradients in its
  // place. `mixed` and `log_sum` can be dropped, and made again from qkv.
  enum Slot : std::size_t { raw, raw_scale, mixed, qkv, log_sum, attention_slots };
  static constexpr Slot dqkv = qkv;
  static constexpr Slot dheads = log_sum;  // of normed queries and keys

  void add_head_norms(const Transformer& transformer, QueryKeyNorm kind, PartList& parts) {
    if (kind == QueryKeyNorm::none) return;
    const bool each = kind == QueryKeyNorm::shared;
    const std::int64_t width = transformer.head_width;
    query_norm_ = parts.rms_norm("attention.query_norm", each ? width : transformer.heads * width,
                                 transformer);
    key_norm_ = parts.rms_norm("attention.key_norm",
                               each ? width : transformer.key_value_heads * width, transformer);
  }

  AttentionShape shape_of(const Samples& samples) const {
    AttentionShape shape = shape_;
    shape.samples = samples.count;
    shape.sequence = samples.sequence;
    shape.past = samples.past;
    return shape;
  }

  void norm_heads(const PassSetting& pass, std::span<Tensor> kept) const {
    if (!query_norm_) return;
    const AttentionShape shape = shape_of(pass.samples);
    const Tensor query = norm_weights(pass.backend, *query_norm_, pass.parameters);
    const Tensor key = norm_weights(pass.backend, *key_norm_, pass.parameters);
    const std::int64_t queries = shape.heads * shape.head_width;
    const std::int64_t keys = shape.key_value_heads * shape.head_width;
    const std::int64_t norms = queries / query.elements() + keys / key.elements();
    const Precision precision = kept[qkv].precision;
    kept[raw] = pass.backend.allocate({shape.samples, shape.sequence, queries + keys}, precision);
    kept[raw_scale] =
        pass.backend.allocate({shape.samples, shape.sequence, norms}, precision_of_sums(precision));
    pass.backend.norm_queries_and_keys(kept[qkv], shape, query, key, query_norm_->epsilon,
                                       kept[raw], kept[raw_scale]);
  }

  void norm_heads_input(const PassSetting& pass, std::span<Tensor> kept) const {
    if (!query_norm_) return;
    kept[dheads] = pass.backend.allocate(kept[raw].shape, kept[raw].precision);
    pass.backend.norm_queries_and_keys_input(
        kept[dqkv], shape_of(pass.samples), kept[raw], kept[raw_scale],
        norm_weights(pass.backend, *query_norm_, pass.parameters),
        norm_weights(pass.backend, *key_norm_, pass.parameters), kept[dheads]);
  }

  /// Each peer has found the gradients of its own heads only.
  void norm_heads_weight(const PassSetting& pass, std::span<Tensor> kept) const {
    if (!query_norm_) return;
    Tensor& query = pass.parameters[query_norm_->weight].gradient;
    Tensor& key = pass.parameters[key_norm_->weight].gradient;
    const auto add_to = [&](Tensor& dquery, Tensor& dkey) {
      pass.backend.norm_queries_and_keys_weight(kept[dheads], shape_of(pass.samples), kept[raw],
                                                kept[raw_scale], dquery, dkey);
    };
    if (peers_ == nullptr) return add_to(query, key);
    Tensor of_query = pass.backend.allocate(query.shape, query.precision);
    Tensor of_key = pass.backend.allocate(key.shape, key.precision);
    pass.backend.zero(of_query);
    pass.backend.zero(of_key);
    add_to(of_query, of_key);
    for (auto& [own, sum] : {std::pair(&of_query, &query), std::pair(&of_key, &key)}) {
      peers_->sum(pass.backend, *own);
      pass.backend.add(*own, *sum);
    }
  }

  Tensor attend_input(const PassSetting& pass, const Tensor& dmixed,
                      std::span<const Tensor> kept) const {
    const AttentionShape shape = shape_of(pass.samples);
    const Tensor all = with_past(pass.backend, shape, kept[qkv], pass.pieces);
    Tensor gradient = pass.backend.allocate(all.shape, all.precision);
    pass.backend.attention_input(dmixed, all, kept[mixed], kept[log_sum], shape, gradient);
    if (pass.pieces != nullptr) gradient = leave_past(pass.backend, shape, gradient, *pass.pieces);
    if (rotary_) pass.backend.rotary(gradient, shape, frequencies_, true);
    return gradient;
  }

  TensorPeers* peers_;
  bool rotary_;
  AttentionShape shape_;  // of one peer's heads; samples are those of a pass
  std::vector<double> frequencies_;
  Linear qkv_;
  Linear output_;
  std::optional<Norm> query_norm_;  // and keys', too, or neither
  std::optional<Norm> key_norm_;
};

}  // namespace

std::unique_ptr<AttentionSublayer> make_attention(const Transformer& transformer,
                                                  const TrainedForm& form, double output_deviation,
                                                  PartList& parts, TensorPeers* peers) {
  return std::make_unique<Attention>(transformer, form, output_deviation, parts, peers);
}

}  // namespace stagecraft
