// Final norm, vocabulary projection and cross-entropy.
//
//   normed = norm(x),  logits = normed tableᵀ,  loss = cross_entropy(logits)
//
// The loss turns the logits into their own gradient, so backward starts from what forward kept. A
// tied head holds its own copy of the embedding's table, under the embedding's name.
//
// Tensor-parallel peers have a part of the vocabulary each; the softmax takes its largest logit and
// its sum from all of them, so no logits travel.
//
// Where logits are limited to some rows at a time, none outlive their rows: forward takes from each
// piece its loss and the gradient of `normed`, and backward_weight makes it again for the table.
// A fourth product for three, and instead of all logits the gradient of `normed` waits (Hsu et al.,
// "Liger Kernel", 2024, makes no product twice, but adds to the table's gradient in the forward).
//
//   forward            for each piece of rows: logits → loss, gradient → rows of dnormed
//   backward_weight    for each piece of rows: logits → gradient → += table's gradient

#include <algorithm>
#include <cassert>
#include <utility>

#include "executor/layers/layers.hpp"
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

  void limit_logits(std::int64_t rows) override { rows_at_once_ = rows; }

  std::vector<ParameterSpec> parameters() const override { return specs_; }

  Tensor forward(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                 const Tensor& input, Saved& saved) const override {
    Normed normed = norm(backend, norm_, parameters, input);
    if (rows_at_once_ > 0) {
      return forward_in_pieces(backend, parameters, samples, normed, saved);
    }
    Tensor logits = backend.allocate_rows(
        {samples.count, samples.sequence, share_.second - share_.first}, input.precision);
    backend.matmul(normed.y, false, parameters[table_].weight, true, logits, false);
    saved.loss = loss_of(backend, samples.targets, samples.loss_scale, logits,
                         peers_ == nullptr ? PartOfSoftmax{} : allocate_part(backend, logits));
    saved.tensors = {normed.y, normed.mean, normed.scale, logits};
    return {};
  }

  Tensor backward_input(Backend& backend, std::span<Parameter> parameters, const Samples&,
                        const Tensor& input, const Tensor&, Saved& saved) const override {
    const Normed normed = normed_of(saved);
    if (rows_at_once_ > 0) {
      return norm_input(backend, norm_, parameters, saved.tensors[3], input, normed);
    }
    assert(saved.tensors.size() == 4);
    Tensor dnormed = backend.allocate(input.shape, input.precision);
    backend.matmul(saved.tensors[3], false, parameters[table_].weight, false, dnormed, false);
    if (peers_ != nullptr) peers_->sum(backend, dnormed);
    saved.tensors.push_back(dnormed);
    return norm_input(backend, norm_, parameters, dnormed, input, normed);
  }

  void backward_weight(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                       const Tensor& input, Saved& saved) const override {
    const Normed normed = normed_of(saved);
    if (rows_at_once_ > 0) {
      add_table_gradient_in_pieces(backend, parameters, samples, saved);
      norm_weight(backend, norm_, parameters, saved.tensors[3], input, normed);
    } else {
      assert(saved.tensors.size() == 5);
      backend.matmul(saved.tensors[3], true, normed.y, false, parameters[table_].gradient, true);
      norm_weight(backend, norm_, parameters, saved.tensors[4], input, normed);
    }
    saved.tensors.clear();
  }

 private:
  /// What peers tell each other of their rows: each row's largest logit, and its sum with the
  /// target's logit. Empty without peers.
  struct PartOfSoftmax {
    Tensor tops;
    Tensor sums;
  };

  static PartOfSoftmax allocate_part(Backend& backend, const Tensor& rows) {
    const std::int64_t count = rows.elements() / rows.shape.back();
    const Precision precision = precision_of_sums(rows.precision);
    return {.tops = backend.allocate({count}, precision),
            .sums = backend.allocate({count, 2}, precision)};
  }

  /// Leaves the gradient in the logits' place. All peers get the whole loss.
  Late<double> loss_of(Backend& backend, std::span<const std::int32_t> targets, double scale,
                       Tensor& logits, PartOfSoftmax part) const {
    if (peers_ == nullptr) return backend.cross_entropy(logits, targets, scale);
    backend.largest_logits(logits, part.tops);
    peers_->largest(backend, part.tops);
    backend.exponentials(logits, part.tops, targets, share_.first, part.sums);
    peers_->sum(backend, part.sums);
    return backend.cross_entropy_of_part(logits, part.sums, targets, share_.first, scale);
  }

  /// Calls visit(first row, end, room for their logits) for each piece, in their order.
  template <class Visit>
  void for_each_piece(Backend& backend, const Tensor& normed, const Visit& visit) const {
    const std::int64_t rows = normed.elements() / normed.shape.back();
    const std::int64_t most = std::min(rows, rows_at_once_);
    const Tensor room =
        backend.allocate_rows({most, share_.second - share_.first}, normed.precision);
    for (std::int64_t first = 0; first < rows; first += most) {
      const std::int64_t end = std::min(rows, first + most);
      visit(first, end, rows_of(room, 0, end - first));
    }
  }

  static Tensor as_rows(const Tensor& tensor) {
    const std::int64_t width = tensor.shape.back();
    return reshaped(tensor, {tensor.elements() / width, width});
  }

  static PartOfSoftmax part_of(const PartOfSoftmax& whole, std::int64_t first, std::int64_t end) {
    if (whole.tops.empty()) return {};
    return {rows_of(whole.tops, first, end), rows_of(whole.sums, first, end)};
  }

  Tensor forward_in_pieces(Backend& backend, std::span<const Parameter> parameters,
                           const Samples& samples, const Normed& normed, Saved& saved) const {
    const Tensor& table = parameters[table_].weight;
    Tensor dnormed = backend.allocate(normed.y.shape, normed.y.precision);
    const Tensor rows = as_rows(normed.y), gradients = as_rows(dnormed);
    const PartOfSoftmax softmax =
        peers_ == nullptr ? PartOfSoftmax{} : allocate_part(backend, rows);
    std::vector<Late<double>> losses;
    for_each_piece(backend, rows, [&](std::int64_t first, std::int64_t end, Tensor logits) {
      backend.matmul(rows_of(rows, first, end), false, table, true, logits, false);
      losses.push_back(loss_of(backend, targets_of(samples, first, end), samples.loss_scale, logits,
                               part_of(softmax, first, end)));
      Tensor gradient = rows_of(gradients, first, end);
      backend.matmul(logits, false, table, false, gradient, false);
    });
    saved.loss = sum_of(std::move(losses));
    if (peers_ != nullptr) peers_->sum(backend, dnormed);
    saved.tensors = {normed.y, normed.mean, normed.scale, dnormed, softmax.tops, softmax.sums};
    return {};
  }

  /// Peers know the whole sums by now, and need not ask each other again.
  void add_table_gradient_in_pieces(Backend& backend, std::span<Parameter> parameters,
                                    const Samples& samples, const Saved& saved) const {
    const Tensor rows = as_rows(saved.tensors[0]);
    const PartOfSoftmax softmax{saved.tensors[4], saved.tensors[5]};
    Tensor own_sums = peers_ == nullptr ? Tensor{} : allocate_part(backend, rows).sums;
    for_each_piece(backend, rows, [&](std::int64_t first, std::int64_t end, Tensor logits) {
      const Tensor piece = rows_of(rows, first, end);
      const auto targets = targets_of(samples, first, end);
      backend.matmul(piece, false, parameters[table_].weight, true, logits, false);
      if (peers_ == nullptr) {
        backend.cross_entropy(logits, targets, samples.loss_scale);
      } else {
        const PartOfSoftmax part = part_of(softmax, first, end);
        Tensor sums = rows_of(own_sums, first, end);
        backend.exponentials(logits, part.tops, targets, share_.first, sums);
        backend.cross_entropy_of_part(logits, part.sums, targets, share_.first, samples.loss_scale);
      }
      backend.matmul(logits, true, piece, false, parameters[table_].gradient, true);
    });
  }

  static std::span<const std::int32_t> targets_of(const Samples& samples, std::int64_t first,
                                                  std::int64_t end) {
    return samples.targets.subspan(static_cast<std::size_t>(first),
                                   static_cast<std::size_t>(end - first));
  }

  // Saved: the norm's three, the gradient of the logits, and after backward_input that of the
  // norm's output. In pieces: the norm's three, the gradient of its output, peers' softmax.
  static Normed normed_of(const Saved& saved) {
    return {saved.tensors[0], saved.tensors[1], saved.tensors[2]};
  }

  PartList parts_;
  TensorPeers* peers_;
  std::pair<std::int64_t, std::int64_t> share_;  // of the vocabulary
  Norm norm_;
  std::size_t table_ = 0;
  std::vector<ParameterSpec> specs_;
  std::int64_t rows_at_once_ = 0;  // of logits; 0: all
};

}  // namespace

std::unique_ptr<TrainableLayer> make_head(const Model& model, int index, TensorPeers* peers) {
  const Transformer& transformer = trainable_transformer(model, index);
  return std::make_unique<Head>(model, transformer,
                                model.layers[static_cast<std::size_t>(index)].name, peers);
}

}  // namespace stagecraft
