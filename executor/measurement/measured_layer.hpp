// A layer to be measured: copies of it and microbatches, as one rank of a run holds them.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "executor/layers/layer.hpp"

namespace stagecraft {

/// The size of the work on one rank.
struct MeasuredSize {
  std::int64_t samples = 1;  ///< samples of a microbatch
  Precision precision = Precision::float32;
  std::int64_t loss_rows = 0;  ///< as in RunOptions
  std::size_t copies =
      1;  ///< number of copies of the layer, each with its own weights and fed by the one before
  std::size_t microbatches = 1;
};

class MeasuredLayer {
 public:
  /// With `peers`, this peer's part of the layer.
  MeasuredLayer(const Model& model, int index, const MeasuredSize& size,
                std::unique_ptr<Backend> backend, std::unique_ptr<TensorPeers> peers = nullptr);

  /// Call them as in a run: forward through the copies in ascending order, both backward passes in
  /// descending order, then one update of each copy. Each call returns when the work is done.
  void forward(std::size_t microbatch, std::size_t copy);
  void backward_input(std::size_t microbatch, std::size_t copy);
  void backward_weight(std::size_t microbatch, std::size_t copy);
  void update(std::size_t copy);

  /// Between forward and backward: drops the attention (returns false if there is none), and
  /// recomputes it.
  bool drop_attention(std::size_t microbatch, std::size_t copy);
  void attend_again(std::size_t microbatch, std::size_t copy);

  const MeasuredSize& size() const { return size_; }
  const Backend& backend() const { return *backend_; }
  void reset_peak() { backend_->reset_peak(); }

  // Figures of one copy.
  Bytes parameter_bytes() const;
  Bytes gradient_bytes() const;
  Bytes optimizer_bytes() const;
  Bytes output_bytes() const { return microbatches_[0].outputs[0].bytes(); }
  Bytes input_gradient_bytes() const { return microbatches_[0].gradient.bytes(); }
  Bytes output_gradient_bytes() const { return microbatches_[0].output_gradient.bytes(); }
  void drop_output() { microbatches_[0].outputs[0] = {}; }
  void drop_output_gradient() { microbatches_[0].output_gradient = {}; }

 private:
  struct Copy {
    std::vector<Parameter> parameters;
    std::vector<Tensor> moments;  // two for each parameter
    std::vector<Tensor> masters;  // where weights are of 16 bits
    int steps = 0;
  };
  struct Microbatch {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> targets;
    Tensor input;            // of the first copy
    Tensor output_gradient;  // of the last copy
    Tensor gradient;         // on its way down
    std::vector<Tensor> outputs;
    std::vector<Saved> saved;
  };

  Copy make_copy();
  Microbatch make_microbatch(std::size_t number);
  Tensor zeros(const std::vector<std::int64_t>& shape);
  Tensor drawn(const ParameterSpec& spec, std::uint64_t seed) const;
  Precision sums() const { return precision_of_sums(size_.precision); }
  Tensor noise(std::int64_t elements, double deviation, std::size_t seed);
  Samples samples(const Microbatch& microbatch) const;
  const Tensor& input_of(const Microbatch& microbatch, std::size_t copy) const;
  // Blocks feed each other; embeddings and heads stand side by side.
  bool chained() const { return kind_ == LayerKind::transformer; }

  MeasuredSize size_;
  std::unique_ptr<TensorPeers> peers_;
  std::unique_ptr<TrainableLayer> layer_;
  LayerKind kind_;
  std::int64_t sequence_;         // of an image: 1
  std::int64_t tokens_;           // or pixels, of a sample
  std::int64_t vocabulary_;       // what is below all of them,
  std::int64_t classes_;          // and below all targets
  std::int64_t input_elements_;   // of a sample; 0 for the first layer
  std::int64_t output_elements_;  // 0 for the last layer, which has the loss
  std::unique_ptr<Backend> backend_;
  std::vector<Copy> copies_;
  std::vector<Microbatch> microbatches_;
};

}  // namespace stagecraft
