// One replica of a stage on its rank: its layers' weights, gradients and optimizer state, and the
// microbatches under way.

#pragma once

#include <string>
#include <vector>

#include "executor/training.hpp"

namespace stagecraft {

/// What a chunk remembers of one microbatch between its passes.
struct Pass {
  TokenBlock block;
  std::vector<Tensor> inputs;  ///< of each layer; the first is the stage's
  std::vector<Saved> saved;    ///< of each layer
  Tensor output;               ///< until it is sent, or taken by the next stage on the same device
  Tensor output_gradient;
  Tensor input_gradient;  ///< until it is sent, or taken by the stage before on the same device
  double loss = 0;        ///< sum over the tokens; of the stage with the head
};

class TrainedChunk {
 public:
  TrainedChunk(const Training& training, const Chunk& chunk, Backend& backend);

  const Chunk& place() const { return chunk_; }
  Pass& pass(int microbatch) { return passes_[static_cast<std::size_t>(microbatch)]; }

  /// From `inputs[0]` to `output`; a stage that recomputes keeps nothing else.
  void forward(int step, int microbatch);
  /// The forward again, for what it left out.
  void recompute(int microbatch);
  /// From `output_gradient` to `input_gradient`, and the gradients of the weights; layer by layer,
  /// to keep little.
  void backward(int microbatch);
  void backward_input(int microbatch);
  void backward_weight(int microbatch);

  /// The optimizer's step number `step`, from 1, and gradients of zero for the next.
  void update(int step);

  /// All gradients in one piece, to be summed over replicas.
  Tensor& gradients() { return gradients_; }
  /// Every weight, in the order of the layers; a weight tied within the chunk appears twice.
  std::vector<Parameter*> parameters();
  /// The weights of this name: none, one, or two that are tied.
  std::vector<Parameter*> find(const std::string& name);

 private:
  struct LayerState {
    std::vector<Parameter> parameters;
    std::vector<OptimizerState> optimizer;
  };

  void allocate_layers();
  void cut_gradients();
  void run_layers(Pass& pass, bool keep);
  Tensor input_gradient_of(Pass& pass, std::size_t layer, const Tensor& output_gradient);
  void add_weight_gradient_of(Pass& pass, std::size_t layer);

  const Training& training_;
  const Chunk& chunk_;
  Backend& backend_;
  std::span<const std::unique_ptr<TrainableLayer>> layers_;
  bool recomputes_;
  std::vector<LayerState> states_;
  Tensor gradients_;
  std::vector<Pass> passes_;
};

}  // namespace stagecraft
