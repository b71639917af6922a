// Final norm, vocabulary projection and cross-entropy.
//
//   normed = norm(x),  logits = normed tableᵀ,  loss = cross_entropy(logits)
//
// The loss turns the logits into their own gradient, so backward starts from what forward kept. A
// tied head holds its own copy of the embedding's table, under the embedding's name.
//
// Tensor-parallel peers have a part of the vocabulary each; the softmax takes its largest logit and
// its sum from all of them, so no logits travel.

#include <cassert>
#include <utility>

#include "executor/layers.hpp"
#include "executor/layers/parts.hpp"

namespace stagecraft {

namespace {

class Head : public TrainableLayer {
 public:
  Head(const Model& model, const Transformer& transformer, const std::string& name,
       TensorPeers* peers)
      : parts_(name), peers_(peers), share_(share_of(transformer.vocabulary, peers)) {
    norm_ = parts_.norm("norm", transformer);
    specs_ = parts_.specs();
    table_ = specs_.size();
    specs_.push_back(
        {.name = transformer.tied_head ? token_table_name(model) : name + ".projection.weight",
         .shape = {transformer.vocabulary, transformer.hidden},
         .initialization = {.deviation = start_deviation},
         .shard = {}});
    cut(specs_.back(), false, {share_}, peers);
  }

  std::vector<ParameterSpec> parameters() const override { return specs_; }

  Tensor forward(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                 const Tensor& input, Saved& saved) const override {
    Normed normed = norm(backend, norm_, parameters, input);
    Tensor logits = backend.allocate(
        {samples.count, samples.sequence, share_.second - share_.first}, input.precision);
    backend.matmul(normed.y, false, parameters[table_].weight, true, logits, false);
    saved.loss = peers_ == nullptr
                     ? backend.cross_entropy(logits, samples.targets, samples.loss_scale)
                     : loss_of_part(backend, samples, logits);
    saved.tensors = {normed.y, normed.mean, normed.scale, logits};
    return {};
  }

  Tensor backward_input(Backend& backend, std::span<Parameter> parameters, const Samples&,
                        const Tensor& input, const Tensor&, Saved& saved) const override {
    assert(saved.tensors.size() == 4);
    const Normed normed = normed_of(saved);
    Tensor dnormed = backend.allocate(input.shape, input.precision);
    backend.matmul(saved.tensors[3], false, parameters[table_].weight, false, dnormed, false);
    if (peers_ != nullptr) peers_->sum(backend, dnormed);
    saved.tensors.push_back(dnormed);
    return norm_input(backend, norm_, parameters, dnormed, input, normed);
  }

  void backward_weight(Backend& backend, std::span<Parameter> parameters, const Samples&,
                       const Tensor& input, Saved& saved) const override {
    assert(saved.tensors.size() == 5);
    const Normed normed = normed_of(saved);
    backend.matmul(saved.tensors[3], true, normed.y, false, parameters[table_].gradient, true);
    norm_weight(backend, norm_, parameters, saved.tensors[4], input, normed);
    saved.tensors.clear();
  }

 private:
  // All peers get the whole loss.
  double loss_of_part(Backend& backend, const Samples& samples, Tensor& logits) const {
    const std::int64_t rows = samples.count * samples.sequence;
    const Precision precision = precision_of_sums(logits.precision);
    Tensor tops = backend.allocate({rows}, precision);
    backend.largest_logits(logits, tops);
    peers_->largest(backend, tops);
    Tensor sums = backend.allocate({rows, 2}, precision);
    backend.exponentials(logits, tops, samples.targets, share_.first, sums);
    peers_->sum(backend, sums);
    return backend.cross_entropy_of_part(logits, sums, samples.targets, share_.first,
                                         samples.loss_scale);
  }

  // Saved: the norm's three, the gradient of the logits, and after backward_input that of the
  // norm's output.
  static Normed normed_of(const Saved& saved) {
    return {saved.tensors[0], saved.tensors[1], saved.tensors[2]};
  }

  PartList parts_;
  TensorPeers* peers_;
  std::pair<std::int64_t, std::int64_t> share_;  // of the vocabulary
  Norm norm_;
  std::size_t table_ = 0;
  std::vector<ParameterSpec> specs_;
};

}  // namespace

std::unique_ptr<TrainableLayer> make_head(const Model& model, int index, TensorPeers* peers) {
  const Transformer& transformer = trainable_transformer(model, index);
  return std::make_unique<Head>(model, transformer,
                                model.layers[static_cast<std::size_t>(index)].name, peers);
}

}  // namespace stagecraft
