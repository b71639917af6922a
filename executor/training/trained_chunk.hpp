// One replica of a stage on its rank: its layers' weights, gradients and optimizer state, and the
// microbatches in flight.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "executor/training/training.hpp"
#include "executor/weights/weight_versions.hpp"

namespace stagecraft {

/// The tensors of one microbatch that a chunk keeps between its passes.
struct MicrobatchPass {
  TokenBlock block;
  std::vector<Tensor> inputs;  ///< input of each layer; the first is the stage's, which may be
                               ///< absent
  std::vector<Saved> saved;    ///< saved tensors of each layer
  Tensor output;               ///< kept until it is sent, or taken by the next stage on the same
                               ///< device
  Tensor output_gradient;
  Tensor input_gradient;  ///< kept until it is sent, or taken by the previous stage on the same
                          ///< device
  Late<double> loss;      ///< sum over the tokens; only on the stage with the head
};

/// A chunk's place among the chunks that hold the same layers.
struct Shard {
  std::size_t place = 0;
  std::size_t members = 1;
};

class TrainedChunk {
 public:
  /// `peers`, if not null, hold the other parts of its layers, and must outlive it.
  TrainedChunk(const Training& training, const Program& program, int chunk, TensorPeers* peers,
               Backend& backend);

  const Chunk& place() const { return chunk_; }
  /// "layers block.0 to block.3", "layer head".
  std::string layer_names() const;
  MicrobatchPass& pass(int microbatch) { return passes_[static_cast<std::size_t>(microbatch)]; }

  /// Begins the next step of the program.
  void begin_step();
  /// Selects the version of the weights that the following passes read.
  void use_version(int version);

  /// Computes `output` from `inputs[0]`. A stage that recomputes keeps only its input; one that
  /// does not train, or has no layers, keeps nothing. A layer that recomputes on its own keeps its
  /// input, or drops its attention.
  void forward(int step, int microbatch);
  /// Repeats the forward, to restore the tensors that it did not keep.
  void recompute(int microbatch);
  /// Computes `input_gradient` from `output_gradient`, and the gradients of the weights, layer by
  /// layer to save memory.
  void backward(int microbatch);
  void backward_input(int microbatch);
  void backward_weight(int microbatch);

  /// Updates the weights (or its own shard, with a sharded optimizer) to this version, by the
  /// gradients times `factor`, and zeroes the gradients. With updates per round of round-robin
  /// replicas, it uses their mean gradient.
  void update(int version, double factor);

  /// The tensors that the forward keeps of a microbatch beside the stage's input. While a partner
  /// holds them, they have shapes but no storage.
  std::vector<Tensor*> kept(int microbatch);

  /// The tensors that later pieces of the same sequence read, and their gradients so far.
  std::vector<const Tensor*> past(int microbatch) const;
  std::vector<const Tensor*> past_gradients(int microbatch) const;

  /// The slots of weight versions, the initial version first.
  std::vector<WeightVersions::Weights>& weight_slots() { return versions_.slots(); }
  WeightVersions::Weights& weights(int version) { return versions_.at(version); }
  /// All gradients in one piece, to be summed over replicas.
  Tensor& gradients() { return gradients_; }
  /// Its share in sums and gathers of a sharded optimizer, per weight.
  const Shard& shard() const { return shard_; }
  /// All weights, in the order of the layers; a weight tied within the chunk appears twice, with
  /// separate gradients.
  std::vector<Parameter*> parameters();
  /// Whether the i-th weight shares its storage, and so its update, with an earlier one.
  bool is_twin(std::size_t i) const { return twins_[i] != 0; }
  /// The optimizer state of each weight, for the chunk's own shard; empty for a twin.
  const std::vector<OptimizerState>& optimizer() const { return optimizer_; }
  /// Number of updates of the i-th weight since training began.
  int updates_of(std::size_t i) const { return optimizer_[i].updates_before + updates_; }
  /// The weights with this name: none, one, or two that are tied.
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
  std::vector<Recomputed> again_;  ///< recomputation of each layer, alone or in a run of layers
  Shard shard_;
  std::vector<std::vector<Parameter>> parameters_;  ///< of each layer
  std::vector<char> twins_;                         ///< of each weight
  std::vector<OptimizerState> optimizer_;           ///< of each weight
  WeightVersions versions_;
  double part_ = 1;  ///< factor of a microbatch's gradient in an update: 1/r in rounds of r
  int updates_ = 0;  ///< since this run began
  Tensor gradients_;
  std::vector<MicrobatchPass> passes_;
  std::vector<std::vector<SequencePieces>>
      sequences_;  ///< pieces of each divided sequence, by layer
};

/// The kept tensors without storage, by which a partner allocates room. Runs the forward once, on a
/// copy of the chunk; a dry backend suffices.
std::vector<Tensor> shapes_kept(const Training& training, const Program& program, int chunk,
                                TensorPeers* peers, Backend& backend);

}  // namespace stagecraft
