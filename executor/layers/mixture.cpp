// Experts, of which each token passes some (Shazeer et al. 2017; Jiang et al., "Mixtral", 2024):
//
//   probabilities = softmax(x ROUTER)
//   chosen        = the experts with the largest of these, so many for each token
//   y             = sum over the chosen of share x swiglu(x UP) DOWN, each expert with its own
//
// An expert's share is its probability, which may be divided by the sum of the chosen ones'. What
// experts compute waits in rows of theirs: expert by expert, and of each its tokens in their order.

#include <utility>

#include "executor/layers/sublayer.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

class Mixture final : public Sublayer {
 public:
  Mixture(const Transformer& transformer, double output_deviation, PartList& parts)
      : experts_(*transformer.experts) {
    const std::int64_t hidden = transformer.hidden;
    const std::int64_t width = experts_.feed_forward;
    router_ = parts.linear("router", hidden, experts_.count, false, start_deviation);
    for (std::int64_t i = 0; i < experts_.count; ++i) {
      const std::string name = concat("experts.", i);
      up_.push_back(parts.linear(name + ".up", hidden, 2 * width, false, start_deviation));
      down_.push_back(parts.linear(name + ".down", width, hidden, false, output_deviation));
    }
  }

  std::size_t slots() const override { return mixture_slots; }

  Tensor forward(const PassSetting& pass, const Tensor& x, const Tensor& residual,
                 std::span<Tensor> kept) const override {
    Backend& backend = pass.backend;
    const std::int64_t tokens = x.elements() / x.shape.back();
    kept[probabilities] = linear(backend, router_, pass.parameters, x);
    kept[chosen] = backend.allocate({tokens, experts_.active}, x.precision);
    backend.choose_experts(kept[probabilities], kept[chosen]);
    const std::int64_t rows = tokens * experts_.active;
    kept[inner] = backend.allocate({rows, 2 * experts_.feed_forward}, x.precision);
    kept[active] = backend.allocate({rows, experts_.feed_forward}, x.precision);
    Tensor y = backend.allocate(x.shape, x.precision);
    backend.experts(x, choice(kept), weights(pass, up_), weights(pass, down_), kept[inner],
                    kept[active], y);
    if (!residual.empty()) backend.add(residual, y);
    return y;
  }

  Tensor backward_input(const PassSetting& pass, const Tensor& dy,
                        std::span<Tensor> kept) const override {
    Backend& backend = pass.backend;
    Tensor dx = backend.allocate(dy.shape, dy.precision);
    Tensor gradient = backend.allocate(kept[inner].shape, dy.precision);
    kept[dlogits] = backend.allocate(kept[probabilities].shape, dy.precision);
    backend.experts_input(dy, choice(kept), weights(pass, up_), weights(pass, down_), kept[inner],
                          kept[active], gradient, dx, kept[dlogits]);
    kept[dinner] = std::move(gradient);
    backend.matmul(kept[dlogits], false, pass.parameters[router_.weight].weight, true, dx, true);
    return dx;
  }

  void backward_weight(const PassSetting& pass, const Tensor& x, const Tensor& dy,
                       std::span<Tensor> kept) const override {
    std::vector<Tensor> dup = gradients(pass, up_);
    std::vector<Tensor> ddown = gradients(pass, down_);
    pass.backend.experts_weight(x, dy, choice(kept), kept[active], kept[dinner], dup, ddown);
    linear_weight(pass.backend, router_, pass.parameters, x, kept[dlogits]);
  }

 private:
  // The first three wait for both backward passes; backward_input leaves a gradient in the place of
  // what the activation is of.
  enum Slot : std::size_t { probabilities, chosen, active, inner, dlogits, mixture_slots };
  static constexpr Slot dinner = inner;

  ExpertChoice choice(std::span<const Tensor> kept) const {
    return {.probabilities = kept[probabilities],
            .chosen = kept[chosen],
            .shares_add_up = experts_.shares_add_up};
  }

  static std::vector<Tensor> weights(const PassSetting& pass, const std::vector<Linear>& parts) {
    std::vector<Tensor> all;
    for (const Linear& part : parts) all.push_back(pass.parameters[part.weight].weight);
    return all;
  }

  static std::vector<Tensor> gradients(const PassSetting& pass, const std::vector<Linear>& parts) {
    std::vector<Tensor> all;
    for (const Linear& part : parts) all.push_back(pass.parameters[part.weight].gradient);
    return all;
  }

  Experts experts_;
  Linear router_;
  std::vector<Linear> up_;  // by expert
  std::vector<Linear> down_;
};

}  // namespace

std::unique_ptr<Sublayer> make_mixture(const Transformer& transformer, double output_deviation,
                                       PartList& parts) {
  return std::make_unique<Mixture>(transformer, output_deviation, parts);
}

}  // namespace stagecraft
