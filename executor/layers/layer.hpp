// A layer that can be trained: forward, and backward in two halves that a schedule may separate.

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "executor/backends/backend.hpp"
#include "profiles/model.hpp"

namespace stagecraft {

/// How a weight starts: normal with this deviation, or all zeros or ones.
struct Initialization {
  enum class Kind { normal, zeros, ones } kind = Kind::normal;
  double deviation = 0.02;
};

/// The part of a weight that one of several tensor-parallel peers holds: these ranges [first, end)
/// of the whole's rows, or of its columns (a vector has columns only), in this order.
struct WeightShard {
  std::vector<std::int64_t> whole;  ///< shape
  bool columns = false;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
};

/// One weight of a layer. `name` is canonical and global, "block.3.attention.qkv.weight": initial
/// values are drawn from a counter-based generator keyed by (seed, name, element), so they do not
/// depend on who holds the layer.
struct ParameterSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  Initialization initialization;
  std::optional<WeightShard> shard;  ///< if it is a part; `shape` is then the part's
};

/// A weight with its gradient sum. Tied weights are two parameters with one name; their gradients
/// are added before the update.
struct Parameter {
  ParameterSpec spec;
  Tensor weight;
  Tensor gradient;
};

/// The samples a rank works on: tokens and targets of its rows of one microbatch. Of images: their
/// pixels, 0 to 255, channel by channel, and their labels; `sequence` is then 1. Of a piece of
/// sequences: its own tokens, behind `past` others that have gone before.
struct Samples {
  std::int64_t count = 0;
  std::int64_t sequence = 0;
  std::int64_t past = 0;
  std::span<const std::int32_t> tokens;
  std::span<const std::int32_t> targets;
  double loss_scale =
      1.0;  ///< 1 / tokens of the global batch: the gradient is that of the mean loss
};

/// What the pieces of the same sequences have of each other at one layer (Sun et al., "Seq1F1B",
/// 2024). Pieces go forward in order and backward in reverse; all are equally long.
struct SequencePieces {
  std::vector<Tensor>
      kept;  ///< by piece: what later ones look at, from its forward to its backward
  std::vector<Tensor> gradients;  ///< of that, as far as later ones have found them
};

/// What a layer keeps of one microbatch between its passes, besides its input.
struct Saved {
  std::vector<Tensor> tensors;
  SequencePieces* pieces = nullptr;  ///< where sequences come in pieces
  Late<double> loss;                 ///< of the head: sum over the rows' tokens, not yet divided
};

/// The ranks that share the layers of a stage (Shoeybi et al., "Megatron-LM", 2019): each holds a
/// part of every large weight, and what they compute of it is summed. All peers make the same calls
/// in the same order; a call returns when all have made it. Throws Error (execution) if a peer is
/// gone.
class TensorPeers {
 public:
  virtual ~TensorPeers() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Element by element the sum of the peers' tensors, added up in the order of ranks, so that all
  /// get the same bits.
  virtual void sum(Backend& backend, Tensor& tensor) = 0;
  /// Element by element the largest of the peers' numbers.
  virtual void largest(Backend& backend, Tensor& tensor) = 0;
};

class TrainableLayer {
 public:
  virtual ~TrainableLayer() = default;

  /// From now on a layer with the loss of a vocabulary makes logits of at most so many rows at a
  /// time, without keeping them; 0: of all, and keeps them. Others have none.
  virtual void limit_logits(std::int64_t) {}

  virtual std::vector<ParameterSpec> parameters() const = 0;

  /// The output; leaves in `saved` what the backward passes need. `input` is empty for the first
  /// layer. The head returns an empty tensor and leaves its loss in `saved`.
  virtual Tensor forward(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                         const Tensor& input, Saved& saved) const = 0;

  /// The gradient of the input (empty for the first layer); replaces in `saved` what only it needed
  /// by what `backward_weight` needs.
  virtual Tensor backward_input(Backend& backend, std::span<Parameter> parameters,
                                const Samples& samples, const Tensor& input,
                                const Tensor& output_gradient, Saved& saved) const = 0;

  /// Drops from what forward left in `saved` the attention's output and statistics. False, and
  /// nothing dropped, if the layer has none.
  virtual bool drop_attention(Saved&) const { return false; }
  /// The same bits again; before backward_input.
  virtual void attend_again(Backend&, const Samples&, Saved&) const {}

  /// Adds to the gradients of the weights, in ascending row order, and drops `saved`. May run any
  /// time after backward_input.
  virtual void backward_weight(Backend& backend, std::span<Parameter> parameters,
                               const Samples& samples, const Tensor& input, Saved& saved) const = 0;
};

/// Draws a weight's start values, the same on every backend of the same precision (drawn in double,
/// then rounded). A large one is drawn by so many threads; the numbers do not depend on that.
void initialize(Parameter& parameter, std::uint64_t seed, int threads = 1);

}  // namespace stagecraft
