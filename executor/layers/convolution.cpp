// A convolution that keeps the image's size, then ReLU if the layer has one.
//
// Between the passes waits the output, for ReLU, then the gradient before ReLU; of the first layer
// also the image made of the samples' pixels.

#include <cassert>

#include "executor/layers/image_parts.hpp"
#include "executor/layers/layers.hpp"
#include "executor/layers/parts.hpp"

namespace stagecraft {

namespace {

class Convolution : public TrainableLayer {
 public:
  explicit Convolution(TrainableImageLayer layer) : layer_(std::move(layer)), parts_(layer_.name) {
    const auto& [input, output, kernel, relu] = layer_.numbers;
    weight_ = parts_.parameter("weight", {output.channels, input.channels, kernel, kernel},
                               rectified_start(input.channels * kernel * kernel));
    bias_ = parts_.parameter("bias", {output.channels}, zeros);
  }

  std::vector<ParameterSpec> parameters() const override { return parts_.specs(); }

  Tensor forward(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                 const Tensor& input, Saved& saved) const override {
    const Tensor& weight = parameters[weight_].weight;
    const Tensor x = image_input(backend, layer_, samples, input, weight.precision);
    Tensor y = allocate_images(backend, samples, layer_.numbers.output, weight.precision);
    backend.convolution(x, weight, parameters[bias_].weight, shape(samples), y);
    if (layer_.numbers.relu) backend.relu(y);
    saved.tensors = {layer_.numbers.relu ? y : Tensor{}, layer_.first ? x : Tensor{}};
    return y;
  }

  Tensor backward_input(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                        const Tensor& input, const Tensor& output_gradient,
                        Saved& saved) const override {
    assert(saved.tensors.size() == 2);
    const Tensor dy = before_relu(backend, layer_, saved.tensors[0], output_gradient);
    saved.tensors[0] = dy;
    if (layer_.first) return {};
    Tensor dx = backend.allocate(input.shape, input.precision);
    backend.convolution_input(dy, parameters[weight_].weight, shape(samples), dx);
    return dx;
  }

  void backward_weight(Backend& backend, std::span<Parameter> parameters, const Samples& samples,
                       const Tensor& input, Saved& saved) const override {
    assert(saved.tensors.size() == 2);
    const Tensor& x = layer_.first ? saved.tensors[1] : input;
    backend.convolution_weight(saved.tensors[0], x, shape(samples), parameters[weight_].gradient,
                               parameters[bias_].gradient);
    saved.tensors.clear();
  }

 private:
  ConvolutionShape shape(const Samples& samples) const {
    const auto& [input, output, kernel, relu] = layer_.numbers;
    return {.samples = samples.count,
            .input_channels = input.channels,
            .output_channels = output.channels,
            .size = input.size,
            .kernel = kernel};
  }

  TrainableImageLayer layer_;
  PartList parts_;
  std::size_t weight_ = 0;
  std::size_t bias_ = 0;
};

}  // namespace

std::unique_ptr<TrainableLayer> make_convolution(const Model& model, int index,
                                                 TensorPeers* peers) {
  return std::make_unique<Convolution>(trainable_image_layer(model, index, peers));
}

}  // namespace stagecraft
