// One replica of a stage on its rank: its layers' weights, gradients and optimizer state, and the
// microbatches under way.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "executor/training/training.hpp"
#include "executor/weights/weight_versions.hpp"

namespace stagecraft {

/// What a chunk remembers of one microbatch between its passes.
struct MicrobatchPass {
  TokenBlock block;
  std::vector<Tensor> inputs;  ///< of each layer; the first is the stage's, which may have none
  std::vector<Saved> saved;    ///< of each layer
  Tensor output;               ///< until it is sent, or taken by the next stage on the same device
  Tensor output_gradient;
  Tensor input_gradient;  ///< until it is sent, or taken by the stage before on the same device
  Late<double> loss;      ///< sum over the tokens; of the stage with the head
};

/// Where a chunk stands among those that hold the same layers.
struct Shard {
  std::size_t place = 0;
  std::size_t members = 1;
};

class TrainedChunk {
 public:
  /// `peers`, if any, hold the other parts of its layers, and must outlive it.
  TrainedChunk(const Training& training, const Program& program, int chunk, TensorPeers* peers,
               Backend& backend);

  const Chunk& place() const { return chunk_; }
  /// "layers block.0 to block.3", "layer head".
  std::string layer_names() const;
  MicrobatchPass& pass(int microbatch) { return passes_[static_cast<std::size_t>(microbatch)]; }

  /// The program begins again.
  void begin_step();
  /// The version of the weights that what comes next reads.
  void use_version(int version);

  /// From `inputs[0]` to `output`; a stage that recomputes keeps nothing else, one that does not
  /// train, or has no layers, nothing at all. A layer that does so by itself keeps its input, or
  /// drops its attention.
  void forward(int step, int microbatch);
  /// The forward again, for what it left out.
  void recompute(int microbatch);
  /// From `output_gradient` to `input_gradient`, and the gradients of the weights; layer by layer,
  /// to keep little.
  void backward(int microbatch);
  void backward_input(int microbatch);
  void backward_weight(int microbatch);

  /// Makes this version of the weights from the one before by the gradients times `factor`, of a
  /// sharded optimizer its own shard of it; and gradients of zero for the next. Where replicas take
  /// turns between updates it is by their mean.
  void update(int version, double factor);

  /// What the forward keeps of a microbatch beside the stage's input. While a partner has it, the
  /// tensors have shapes but no storage.
  std::vector<Tensor*> kept(int microbatch);

  /// What later pieces of the same sequence look at, and the gradients they have found of it.
  std::vector<const Tensor*> past(int microbatch) const;
  std::vector<const Tensor*> past_gradients(int microbatch) const;

  /// Where versions are kept, that of the start first.
  std::vector<WeightVersions::Weights>& weight_slots() { return versions_.slots(); }
  WeightVersions::Weights& weights(int version) { return versions_.at(version); }
  /// All gradients in one piece, to be summed over replicas.
  Tensor& gradients() { return gradients_; }
  /// Its part in sums and gathers of a sharded optimizer, weight by weight.
  const Shard& shard() const { return shard_; }
  /// Every weight, in the order of the layers; a weight tied within the chunk appears twice, with
  /// gradients of its own.
  std::vector<Parameter*> parameters();
  /// Whether the i-th weight lies where one before it does, whose step is its own, too.
  bool is_twin(std::size_t i) const { return twins_[i] != 0; }
  /// Of each weight, for the chunk's own shard of it; a twin has none.
  const std::vector<OptimizerState>& optimizer() const { return optimizer_; }
  /// Updates of the i-th weight since training began.
  int updates_of(std::size_t i) const { return optimizer_[i].updates_before + updates_; }
  /// The weights of this name: none, one, or two that are tied.
  std::vector<Parameter*> find(const std::string& name);

 private:
  std::vector<Tensor> allocate_layers();
  Tensor first_value(const ParameterSpec& spec, Tensor& weight);
  std::optional<std::size_t> place_of(const ParameterSpec& spec);
  void allocate_training(std::span<const Tensor> starts);
  void join_pieces(int microbatch);
  void join_pieces(int microbatch, std::size_t layer);
  std::vector<const Tensor*> of_piece(int microbatch,
                                      std::vector<Tensor> SequencePieces::*tensors) const;
  void pass_on(Tensor& from, Tensor& to);
  void run_layers(MicrobatchPass& pass, bool keep);
  Tensor run_layer(MicrobatchPass& pass, std::size_t layer);
  void leave_out(MicrobatchPass& pass, std::size_t layer);
  bool is_rebuilt_with_previous(std::size_t layer) const;
  void rebuild(int microbatch, std::size_t layer);
  void rebuild_run(int microbatch, std::size_t last);
  Tensor input_gradient_of(int microbatch, std::size_t layer, const Tensor& output_gradient);
  void add_weight_gradient_of(MicrobatchPass& pass, std::size_t layer);

  const Training& training_;
  const Chunk& chunk_;
  Backend& backend_;
  std::vector<std::unique_ptr<TrainableLayer>> layers_;
  bool trains_;
  bool recomputes_;
  std::vector<Recomputed> again_;  ///< of each layer, by itself or with those around it
  Shard shard_;
  std::vector<std::vector<Parameter>> parameters_;  ///< of each layer
  std::vector<char> twins_;                         ///< of each weight
  std::vector<OptimizerState> optimizer_;           ///< of each weight
  WeightVersions versions_;
  double part_ = 1;  ///< of a microbatch's gradient in an update: 1/r in rounds of r
  int updates_ = 0;  ///< since this run began
  Tensor gradients_;
  std::vector<MicrobatchPass> passes_;
  std::vector<std::vector<SequencePieces>>
      sequences_;  ///< of each sequence cut in pieces, by layer
};

/// Those tensors without storage, for whoever is to make room for them. Runs the forward once, on a
/// copy of the chunk; a backend that only allocates will do.
std::vector<Tensor> shapes_kept(const Training& training, const Program& program, int chunk,
                                TensorPeers* peers, Backend& backend);

}  // namespace stagecraft
