// A linear map of all numbers of an image, then ReLU or, in the last layer, cross-entropy with the
// samples' labels.
//
// Between the passes waits the output, for ReLU, then the gradient before ReLU. The loss turns its
// logits into their own gradient.

#include <cassert>

#include "executor/layers/image_parts.hpp"
#include "executor/layers/layers.hpp"
#include "executor/layers/parts.hpp"

namespace stagecraft {

namespace {

class Dense : public TrainableLayer {
 public:
  explicit Dense(TrainableImageLayer layer) : layer_(std::move(layer)), parts_(layer_.name) {
    const std::int64_t inputs = layer_.numbers.input.elements();
    const std::int64_t outputs = layer_.numbers.output.channels;
    const Initialization start = layer_.numbers.relu ? rectified_start(inputs)
                                                     : Initialization{.deviation = start_deviation};
    linear_.weight = parts_.parameter("weight", {inputs, outputs}, start);
    linear_.bias = parts_.parameter("bias", {outputs}, zeros);
  }

  std::vector<ParameterSpec> parameters() const override { return parts_.specs(); }

  Tensor forward(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                 const Tensor& input, Saved& saved) const override {
    const Precision precision = parameters[linear_.weight].weight.precision;
    const Tensor x = image_input(backend, layer_, samples, input, precision);
    Tensor y = linear(backend, linear_, parameters, x);
    if (layer_.last) saved.loss = backend.cross_entropy(y, samples.targets, samples.loss_scale);
    if (layer_.numbers.relu) backend.relu(y);
    const bool keep = layer_.last || layer_.numbers.relu;
    saved.tensors = {keep ? y : Tensor{}, layer_.first ? x : Tensor{}};
    return layer_.last ? Tensor{} : y;
  }

  Tensor backward_input(Backend& backend, std::span<Parameter> parameters, const Samples&,
                        const Tensor&, const Tensor& output_gradient, Saved& saved) const override {
    assert(saved.tensors.size() == 2);
    if (!layer_.last) {
      saved.tensors[0] = before_relu(backend, layer_, saved.tensors[0], output_gradient);
    }
    if (layer_.first) return {};
    return linear_input(backend, linear_, parameters, saved.tensors[0]);
  }

  void backward_weight(Backend& backend, std::span<Parameter> parameters, const Samples&,
                       const Tensor& input, Saved& saved) const override {
    assert(saved.tensors.size() == 2);
    const Tensor& x = layer_.first ? saved.tensors[1] : input;
    linear_weight(backend, linear_, parameters, x, saved.tensors[0]);
    saved.tensors.clear();
  }

 private:
  TrainableImageLayer layer_;
  PartList parts_;
  Linear linear_;
};

}  // namespace

std::unique_ptr<TrainableLayer> make_dense(const Model& model, int index, TensorPeers* peers) {
  return std::make_unique<Dense>(trainable_image_layer(model, index, peers));
}

}  // namespace stagecraft
