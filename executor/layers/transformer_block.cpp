// A transformer block: two sublayers, attention and a feed-forward or experts, each added to what
// it is of. Norms stand before a sublayer (GPT-2, Llama), behind it (OLMo 2) or on both sides
// (Gemma 3):
//
//   middle = x + [norm](attention([norm1](x)))
//   y      = middle + [norm](feed_forward([norm2](middle)))
//
// With a parallel residual (GPT-NeoX) both are of x: y = x + attention(norm1(x)) +
// feed_forward(norm2(x)).
//
// What waits between the passes, so that no product is computed twice:
//
//   for both                    what a sublayer is of (a norm's output, `middle`), norms'
//   statistics,
//                               and what norms behind sublayers are of
//   for backward_weight only    the gradients of norms' outputs and of sublayers'
//
// and what sublayers keep themselves.

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "executor/layers/layers.hpp"
#include "executor/layers/sublayer.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// A norm's places in what waits: its output (none is kept of a norm behind a sublayer), its
/// statistics, and between the backward passes its output's gradient.
enum NormSlot : std::size_t { normed, mean, scale, dnormed, norm_slots };

/// The norm of rows, with its output kept unless only its statistics are asked for.
Tensor normed_rows(const PassSetting& pass, const Norm& part, const Tensor& x,
                   std::span<Tensor> kept) {
  Normed result = norm(pass.backend, part, pass.parameters, x);
  kept[mean] = std::move(result.mean);
  kept[scale] = std::move(result.scale);
  return std::move(result.y);
}

Normed normed_of(std::span<const Tensor> kept) {
  return {kept[normed], kept[mean], kept[scale]};
}

/// Half of a block: x becomes residual + [norm](sublayer([norm](x))).
class Half {
 public:
  Half(const Sublayer& sublayer, std::optional<Norm> before, std::optional<Norm> behind)
      : sublayer_(sublayer), before_(before), behind_(behind) {}

  std::size_t slots() const { return first_of_sublayer() + sublayer_.slots(); }
  std::span<Tensor> of_sublayer(std::span<Tensor> kept) const {
    return kept.subspan(first_of_sublayer());
  }

  Tensor forward(const PassSetting& pass, const Tensor& x, const Tensor& residual,
                 std::span<Tensor> kept) const {
    if (before_) kept[normed] = normed_rows(pass, *before_, x, kept);
    const Tensor& rows = before_ ? kept[normed] : x;
    if (!behind_) return sublayer_.forward(pass, rows, residual, of_sublayer(kept));
    kept[output] = sublayer_.forward(pass, rows, {}, of_sublayer(kept));
    Tensor y = normed_rows(pass, *behind_, kept[output], of_norm_behind(kept));
    pass.backend.add(residual, y);
    return y;
  }

  /// The gradient of x, plus `past`, that of what also goes past this half.
  Tensor backward_input(const PassSetting& pass, const Tensor& x, const Tensor& dy,
                        const Tensor& past, std::span<Tensor> kept) const {
    Backend& backend = pass.backend;
    if (behind_) {
      const std::span<Tensor> norm = of_norm_behind(kept);
      kept[doutput] =
          norm_input(backend, *behind_, pass.parameters, dy, kept[output], normed_of(norm));
      norm[dnormed] = dy;
    } else {
      kept[doutput] = dy;
    }
    Tensor drows = sublayer_.backward_input(pass, kept[doutput], of_sublayer(kept));
    if (!before_) {
      backend.add(past, drows);
      return drows;
    }
    kept[dnormed] = std::move(drows);
    return norm_input_and_residual(backend, *before_, pass.parameters, kept[dnormed], x,
                                   normed_of(kept), past);
  }

  void backward_weight(const PassSetting& pass, const Tensor& x, std::span<Tensor> kept) const {
    if (behind_) {
      const std::span<const Tensor> norm = of_norm_behind(kept);
      norm_weight(pass.backend, *behind_, pass.parameters, norm[dnormed], kept[output],
                  normed_of(norm));
    }
    sublayer_.backward_weight(pass, before_ ? kept[normed] : x, kept[doutput], of_sublayer(kept));
    if (!before_) return;
    norm_weight(pass.backend, *before_, pass.parameters, kept[dnormed], x, normed_of(kept));
  }

 private:
  // Behind the places of the norm before the sublayer, those of its output and of its gradient,
  // then those of the norm behind it, then its own.
  static constexpr std::size_t output = norm_slots;
  static constexpr std::size_t doutput = norm_slots + 1;
  static constexpr std::size_t first_of_norm_behind = norm_slots + 2;
  static std::span<Tensor> of_norm_behind(std::span<Tensor> kept) {
    return kept.subspan(first_of_norm_behind, norm_slots);
  }
  static constexpr std::size_t first_of_sublayer() { return first_of_norm_behind + norm_slots; }

  const Sublayer& sublayer_;
  std::optional<Norm> before_;
  std::optional<Norm> behind_;
};

class TransformerBlock final : public TrainableLayer {
 public:
  TransformerBlock(const Transformer& transformer, const TrainedForm& form, const std::string& name,
                   int blocks, TensorPeers* peers)
      : parallel_(transformer.arithmetic.parallel_residual), parts_(name, peers) {
    // Every block adds twice to the residual stream; as in GPT-2, the sum keeps its size.
    const double output_deviation = start_deviation / std::sqrt(2.0 * blocks);
    const auto norm = [&](bool there, const std::string& called) {
      return there ? std::optional(parts_.norm(called, transformer)) : std::nullopt;
    };
    const auto norm1 = norm(form.norms_before, "norm1");
    attention_ = make_attention(transformer, form, output_deviation, parts_, peers);
    attending_.emplace(*attention_, norm1, norm(form.norms_behind, "attention.norm"));
    const auto norm2 = norm(form.norms_before, "norm2");
    feed_forward_ = form.experts
                        ? make_mixture(transformer, output_deviation, parts_)
                        : make_feed_forward(transformer, form, output_deviation, parts_, peers);
    feeding_.emplace(*feed_forward_, norm2, norm(form.norms_behind, "feed_forward.norm"));
  }

  std::vector<ParameterSpec> parameters() const override { return parts_.specs(); }

  Tensor forward(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                 const Tensor& input, Saved& saved) const override {
    const PassSetting pass{backend, parameters, samples, saved.pieces};
    saved.tensors.assign(1 + attending_->slots() + feeding_->slots(), {});
    Tensor sum = attending_->forward(pass, input, input, of_attending(saved));
    if (parallel_) return feeding_->forward(pass, input, sum, of_feeding(saved));
    saved.tensors[middle] = std::move(sum);
    return feeding_->forward(pass, saved.tensors[middle], saved.tensors[middle], of_feeding(saved));
  }

  Tensor backward_input(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                        const Tensor& input, const Tensor& output_gradient,
                        Saved& saved) const override {
    const PassSetting pass{backend, parameters, samples, saved.pieces};
    const Tensor& fed = parallel_ ? input : saved.tensors[middle];
    const Tensor dfed =
        feeding_->backward_input(pass, fed, output_gradient, output_gradient, of_feeding(saved));
    return attending_->backward_input(pass, input, parallel_ ? output_gradient : dfed, dfed,
                                      of_attending(saved));
  }

  bool drop_attention(Saved& saved) const override {
    attention_->drop(attending_->of_sublayer(of_attending(saved)));
    return true;
  }

  void attend_again(Backend& backend, const Samples& samples, Saved& saved) const override {
    attention_->attend_again({backend, {}, samples, saved.pieces},
                             attending_->of_sublayer(of_attending(saved)));
  }

  void backward_weight(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                       const Tensor& input, Saved& saved) const override {
    const PassSetting pass{backend, parameters, samples, saved.pieces};
    feeding_->backward_weight(pass, parallel_ ? input : saved.tensors[middle], of_feeding(saved));
    attending_->backward_weight(pass, input, of_attending(saved));
    saved.tensors.clear();
  }

 private:
  static constexpr std::size_t middle = 0;
  std::span<Tensor> of_attending(Saved& saved) const {
    return std::span(saved.tensors).subspan(1, attending_->slots());
  }
  std::span<Tensor> of_feeding(Saved& saved) const {
    return std::span(saved.tensors).subspan(1 + attending_->slots());
  }

  bool parallel_;
  PartList parts_;
  std::unique_ptr<AttentionSublayer> attention_;
  std::unique_ptr<Sublayer> feed_forward_;
  std::optional<Half> attending_;
  std::optional<Half> feeding_;
};

}  // namespace

std::unique_ptr<TrainableLayer> make_transformer_block(const Model& model, int index,
                                                       TensorPeers* peers) {
  const Transformer& transformer = trainable_transformer(model, index);
  const Layer& layer = model.layers[static_cast<std::size_t>(index)];
  const TrainedForm form = *trained_form(transformer, layer);
  if (peers != nullptr) {
    const std::string reason = reason_against_dividing(transformer, layer, peers->ranks());
    if (!reason.empty())
      fail("cannot split layer \"", layer.name, "\" of ", model.name, ": ", reason);
  }
  const auto blocks = std::ranges::count_if(model.layers, is_block);
  return std::make_unique<TransformerBlock>(transformer, form, layer.name, static_cast<int>(blocks),
                                            peers);
}

}  // namespace stagecraft
