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

/// The initial distribution of a weight: normal with this deviation, or all zeros or ones.
struct Initialization {
  enum class Kind { normal, zeros, ones } kind = Kind::normal;
  double deviation = 0.02;
};

/// The part of a weight on one tensor-parallel peer: these ranges [first, end) of the whole
/// weight's rows, or of its columns (a vector has only columns), in this order.
struct WeightShard {
  std::vector<std::int64_t> whole;  ///< shape of the whole weight
  bool columns = false;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
};

/// One weight of a layer. `name` is canonical and global, "block.3.attention.qkv.weight": initial
/// values come from a counter-based generator keyed by (seed, name, element), so they do not depend
/// on which rank holds the layer.
struct ParameterSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  Initialization initialization;
  std::optional<WeightShard> shard;  ///< set if the weight is a part; `shape` is then the part's
};

/// A weight with its gradient sum. Tied weights are two parameters with one name; their gradients
/// are added before the update.
struct Parameter {
  ParameterSpec spec;
  Tensor weight;
  Tensor gradient;
};

/// The samples that a rank works on: tokens and targets of its rows of one microbatch. For images:
/// their pixels, 0 to 255, channel by channel, and their labels; `sequence` is then 1. For a piece
/// of sequences: its own tokens, which follow `past` earlier ones.
struct Samples {
  std::int64_t count = 0;
  std::int64_t sequence = 0;
  std::int64_t past = 0;
  std::span<const std::int32_t> tokens;
  std::span<const std::int32_t> targets;
  double loss_scale =
      1.0;  ///< 1 / tokens of the global batch: the gradient is that of the mean loss
};

/// The tensors that pieces of the same sequences share at one layer (Sun et al., "Seq1F1B", 2024).
/// Pieces run forward in order and backward in reverse; all have equal lengths.
struct SequencePieces {
  std::vector<Tensor>
      kept;  ///< by piece: tensors that later pieces read, from its forward to its backward
  std::vector<Tensor> gradients;  ///< their gradients, accumulated by later pieces
};

/// The tensors that a layer keeps of one microbatch between its passes, besides its input.
struct Saved {
  std::vector<Tensor> tensors;
  SequencePieces* pieces = nullptr;  ///< if sequences are divided into pieces
  Late<double> loss;                 ///< for the head: sum over the rows' tokens, not yet divided
};

/// The tensor-parallel ranks that divide the layers of a stage (Shoeybi et al., "Megatron-LM",
/// 2019): each holds a part of every large weight, and their partial products are summed. All peers
/// make the same calls in the same order; a call returns when all have made it. Throws Error
/// (execution) if a peer has ended.
class TensorPeers {
 public:
  virtual ~TensorPeers() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Elementwise sum of the peers' tensors, in the order of ranks, so that all get the same bits.
  virtual void sum(Backend& backend, Tensor& tensor) = 0;
  /// Elementwise maximum over the peers.
  virtual void largest(Backend& backend, Tensor& tensor) = 0;
};

class TrainableLayer {
 public:
  virtual ~TrainableLayer() = default;

  /// Makes a layer with a vocabulary loss compute logits of at most this many rows at a time,
  /// without keeping them; 0: of all rows, and keeps them. No effect on other layers.
  virtual void limit_logits(std::int64_t) {}

  virtual std::vector<ParameterSpec> parameters() const = 0;

  /// Returns the output, and saves in `saved` the tensors that the backward passes need. `input` is
  /// empty for the first layer. The head returns an empty tensor and stores its loss in `saved`.
  virtual Tensor forward(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                         const Tensor& input, Saved& saved) const = 0;

  /// Returns the gradient of the input (empty for the first layer), and reduces `saved` to the
  /// tensors that `backward_weight` needs.
  virtual Tensor backward_input(Backend& backend, std::span<Parameter> parameters,
                                const Samples& samples, const Tensor& input,
                                const Tensor& output_gradient, Saved& saved) const = 0;

  /// Drops the attention's output and statistics from `saved`. Returns false if the layer has no
  /// attention.
  virtual bool drop_attention(Saved&) const { return false; }
  /// Recomputes the dropped attention with the same bits, before `backward_input`.
  virtual void attend_again(Backend&, const Samples&, Saved&) const {}

  /// Adds to the gradients of the weights, in ascending row order, and drops `saved`. May be called
  /// any time after `backward_input`.
  virtual void backward_weight(Backend& backend, std::span<Parameter> parameters,
                               const Samples& samples, const Tensor& input, Saved& saved) const = 0;
};

/// Draws a weight's initial values, equal on every backend of the same precision (drawn in double,
/// then rounded). Large weights use `threads` threads; the values do not depend on their number.
void initialize(Parameter& parameter, std::uint64_t seed, int threads = 1);

}  // namespace stagecraft
