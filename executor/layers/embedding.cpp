// Token embedding, with learned positions if the model has them. Forward keeps nothing; between the
// backward passes waits the gradient of its output.

#include <utility>

#include "executor/layers/layers.hpp"
#include "executor/layers/parts.hpp"
#include "profiles/trained_form.hpp"

namespace stagecraft {

namespace {

class Embedding : public TrainableLayer {
 public:
  Embedding(const Transformer& transformer, const Layer& layer, TensorPeers* peers)
      : parts_(layer.name),
        peers_(peers),
        hidden_(transformer.hidden),
        scale_(transformer.arithmetic.embedding_scale),
        first_position_(rows_before_positions(transformer, layer)),
        share_(share_of(transformer.vocabulary, peers)) {
    token_ = parts_.parameter("token.weight", {transformer.vocabulary, hidden_},
                              {.deviation = start_deviation});
    if (transformer.position == Transformer::Position::learned) {
      position_ =
          parts_.parameter("position.weight", {first_position_ + transformer.positions, hidden_},
                           {.deviation = start_deviation});
    }
  }

  std::vector<ParameterSpec> parameters() const override {
    std::vector<ParameterSpec> specs = parts_.specs();
    cut(specs[token_], false, {share_}, peers_);
    return specs;
  }

  Tensor forward(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                 const Tensor&, Saved& saved) const override {
    const Tensor& table = parameters[token_].weight;
    Tensor output = backend.allocate({samples.count, samples.sequence, hidden_}, table.precision);
    // Positions count once.
    const bool adds_positions = position_ && (peers_ == nullptr || peers_->rank() == 0);
    const Tensor positions =
        adds_positions ? from_here(parameters[*position_].weight, samples) : Tensor{};
    backend.embedding(samples.tokens, table, share_.first, positions, samples.sequence, output);
    if (peers_ != nullptr) peers_->sum(backend, output);
    if (scale_ != 1) backend.scale(scale_, output);
    saved.tensors.clear();
    return output;
  }

  Tensor backward_input(Backend&, std::span<Parameter>, const Samples&, const Tensor&,
                        const Tensor& output_gradient, Saved& saved) const override {
    saved.tensors = {output_gradient};
    return {};
  }

  void backward_weight(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                       const Tensor&, Saved& saved) const override {
    Tensor positions = position_ ? from_here(parameters[*position_].gradient, samples) : Tensor{};
    Tensor gradient = saved.tensors[0];
    if (scale_ != 1) {
      gradient = backend.allocate(gradient.shape, gradient.precision);
      backend.copy(saved.tensors[0], gradient);
      backend.scale(scale_, gradient);
    }
    backend.embedding_weight(samples.tokens, gradient, share_.first, samples.sequence,
                             parameters[token_].gradient, positions);
    saved.tensors.clear();
  }

 private:
  /// The rows of a table of positions from the samples' first one on.
  Tensor from_here(const Tensor& table, const Samples& samples) const {
    return rows_of(table, first_position_ + samples.past, table.shape.front());
  }

  PartList parts_;
  TensorPeers* peers_;
  std::int64_t hidden_;
  double scale_;                                 // of words' rows
  std::int64_t first_position_;                  // of its table's rows
  std::pair<std::int64_t, std::int64_t> share_;  // of the vocabulary
  std::size_t token_ = 0;
  std::optional<std::size_t> position_;
};

}  // namespace

std::unique_ptr<TrainableLayer> make_embedding(const Model& model, int index, TensorPeers* peers) {
  const Transformer& transformer = trainable_transformer(model, index);
  return std::make_unique<Embedding>(transformer, model.layers[static_cast<std::size_t>(index)],
                                     peers);
}

}  // namespace stagecraft
