// What a transformer block computes between its norms: attention, a feed-forward, or experts.

#pragma once

#include <memory>
#include <span>

#include "executor/layers/layer.hpp"
#include "executor/layers/parts.hpp"
#include "profiles/trained_form.hpp"

namespace stagecraft {

/// What every pass of a sublayer works with.
struct PassSetting {
  Backend& backend;
  std::span<Parameter> parameters;
  const Samples& samples;
  SequencePieces* pieces = nullptr;  ///< where sequences come in pieces
};

/// A function of rows as wide as the hidden state, which gives such rows. `kept`, `slots()` tensors
/// of a microbatch's, is what it leaves itself from one pass to the next.
class Sublayer {
 public:
  virtual ~Sublayer() = default;
  virtual std::size_t slots() const = 0;

  /// f(x), + residual unless it is empty.
  virtual Tensor forward(const PassSetting& pass, const Tensor& x, const Tensor& residual,
                         std::span<Tensor> kept) const = 0;
  /// From the gradient of f(x) to that of x, in memory of its own.
  virtual Tensor backward_input(const PassSetting& pass, const Tensor& dy,
                                std::span<Tensor> kept) const = 0;
  /// Adds to the gradients of weights, from the same x and dy as before.
  virtual void backward_weight(const PassSetting& pass, const Tensor& x, const Tensor& dy,
                               std::span<Tensor> kept) const = 0;
};

/// Attention can give up what makes its output, and make it again from queries, keys and values.
class AttentionSublayer : public Sublayer {
 public:
  virtual void drop(std::span<Tensor> kept) const = 0;
  /// The same bits again; before backward_input.
  virtual void attend_again(const PassSetting& pass, std::span<Tensor> kept) const = 0;
};

/// Parameters go to `parts`; products that add to the residual stream start with
/// `output_deviation`. `peers`, if there are any, must outlive it.
std::unique_ptr<AttentionSublayer> make_attention(const Transformer& transformer,
                                                  const TrainedForm& form, double output_deviation,
                                                  PartList& parts, TensorPeers* peers);
std::unique_ptr<Sublayer> make_feed_forward(const Transformer& transformer, const TrainedForm& form,
                                            double output_deviation, PartList& parts,
                                            TensorPeers* peers);
/// Whole on one device.
std::unique_ptr<Sublayer> make_mixture(const Transformer& transformer, double output_deviation,
                                       PartList& parts);

}  // namespace stagecraft
