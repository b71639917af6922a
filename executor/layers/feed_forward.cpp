// Two products with an activation between them:
//
//   inner  = x UP
//   active = GELU, SwiGLU, GeGLU or relu of inner
//   y      = active DOWN
//
// Tensor-parallel peers have columns of UP each; active DOWN is a sum over all of them, and so is
// the gradient of x.

#include <utility>

#include "executor/layers/sublayer.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

enum class Activation { gelu, exact_gelu, relu, swiglu, geglu };

Activation activation_of(const Transformer& transformer, const TrainedForm& form) {
  using Kind = Arithmetic::Activation;
  const Kind kind = transformer.arithmetic.activation;
  if (form.relu) return Activation::relu;
  if (transformer.activation == Transformer::FeedForward::swiglu)
    return kind == Kind::tanh_gelu ? Activation::geglu : Activation::swiglu;
  return kind == Kind::exact_gelu ? Activation::exact_gelu : Activation::gelu;
}

class FeedForward final : public Sublayer {
 public:
  FeedForward(const Transformer& transformer, const TrainedForm& form, double output_deviation,
              PartList& parts, TensorPeers* peers)
      : peers_(peers), activation_(activation_of(transformer, form)) {
    const std::int64_t hidden = transformer.hidden;
    const std::int64_t width = transformer.feed_forward;
    up_ = parts.linear_of_columns("feed_forward.up", hidden,
                                  is_gated() ? std::vector{width, width} : std::vector{width},
                                  transformer.feed_forward_bias, start_deviation);
    down_ = parts.linear_of_rows("feed_forward.down", width, hidden, transformer.feed_forward_bias,
                                 output_deviation);
    const auto [first, end] = share_of(width, peers);
    width_ = end - first;
  }

  std::size_t slots() const override { return feed_forward_slots; }

  Tensor forward(const PassSetting& pass, const Tensor& x, const Tensor& residual,
                 std::span<Tensor> kept) const override {
    Activated activated = activate(pass, x);
    kept[inner] = std::move(activated.before);
    kept[active] = std::move(activated.y);
    return linear_of_rows(pass.backend, down_, pass.parameters, kept[active], residual, peers_);
  }

  Tensor backward_input(const PassSetting& pass, const Tensor& dy,
                        std::span<Tensor> kept) const override {
    kept[dinner] = activate_input(pass, dy, kept);
    return linear_input_of_columns(pass.backend, up_, pass.parameters, kept[dinner], peers_);
  }

  void backward_weight(const PassSetting& pass, const Tensor& x, const Tensor& dy,
                       std::span<Tensor> kept) const override {
    linear_weight(pass.backend, down_, pass.parameters, kept[active], dy);
    linear_weight(pass.backend, up_, pass.parameters, x, kept[dinner]);
  }

 private:
  // `active` waits for both backward passes; backward_input leaves a gradient in the place of what
  // the activation is of.
  enum Slot : std::size_t { active, inner, feed_forward_slots };
  static constexpr Slot dinner = inner;

  bool is_gated() const {
    return activation_ == Activation::swiglu || activation_ == Activation::geglu;
  }

  Activated activate(const PassSetting& pass, const Tensor& x) const {
    Backend& backend = pass.backend;
    if (activation_ == Activation::gelu) return linear_gelu(backend, up_, pass.parameters, x);
    Tensor before = linear(backend, up_, pass.parameters, x);
    if (activation_ == Activation::relu) {  // in place: `before` is not needed again
      backend.relu(before);
      return {.before = {}, .y = std::move(before)};
    }
    std::vector<std::int64_t> shape = before.shape;
    shape.back() = width_;
    Tensor y = backend.allocate(std::move(shape), x.precision);
    switch (activation_) {
      case Activation::exact_gelu: backend.exact_gelu(before, y); break;
      case Activation::geglu: backend.geglu(before, y); break;
      case Activation::swiglu: backend.swiglu(before, y); break;
      case Activation::gelu:
      case Activation::relu: break;  // above
    }
    return {.before = std::move(before), .y = std::move(y)};
  }

  /// From the gradient of DOWN's output to that of UP's.
  Tensor activate_input(const PassSetting& pass, const Tensor& dy,
                        std::span<const Tensor> kept) const {
    Backend& backend = pass.backend;
    const Tensor& before = kept[inner];
    if (activation_ == Activation::gelu)
      return linear_gelu_input(backend, down_, pass.parameters, dy, before);
    const Tensor gradient = linear_input(backend, down_, pass.parameters, dy);
    const Tensor& like = before.empty() ? gradient : before;
    Tensor dx = backend.allocate(like.shape, like.precision);
    switch (activation_) {
      case Activation::relu: backend.relu_input(gradient, kept[active], dx); break;
      case Activation::exact_gelu: backend.exact_gelu_input(gradient, before, dx); break;
      case Activation::geglu: backend.geglu_input(gradient, before, dx); break;
      case Activation::swiglu: backend.swiglu_input(gradient, before, dx); break;
      case Activation::gelu: break;  // above
    }
    return dx;
  }

  TensorPeers* peers_;
  Activation activation_;
  std::int64_t width_ = 0;  // of this peer
  Linear up_;
  Linear down_;
};

}  // namespace

std::unique_ptr<Sublayer> make_feed_forward(const Transformer& transformer, const TrainedForm& form,
                                            double output_deviation, PartList& parts,
                                            TensorPeers* peers) {
  return std::make_unique<FeedForward>(transformer, form, output_deviation, parts, peers);
}

}  // namespace stagecraft
