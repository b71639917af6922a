// The largest number of each square of the image. Nothing waits between the passes: the input
// tells again where it was.

#include "executor/layers/image_parts.hpp"
#include "executor/layers/layers.hpp"

namespace stagecraft {

namespace {

class Pool : public TrainableLayer {
 public:
  explicit Pool(TrainableImageLayer layer) : layer_(std::move(layer)) {}

  std::vector<ParameterSpec> parameters() const override { return {}; }

  Tensor forward(Backend& backend, std::span<Parameter>, const Samples& samples,
                 const Tensor& input, Saved& saved) const override {
    Tensor y = allocate_images(backend, samples, layer_.numbers.output, input.precision);
    backend.max_pool(input, shape(samples), y);
    if (layer_.numbers.relu) backend.relu(y);
    saved.tensors = {layer_.numbers.relu ? y : Tensor{}};
    return y;
  }

  Tensor backward_input(Backend& backend, std::span<Parameter>, const Samples& samples,
                        const Tensor& input, const Tensor& output_gradient,
                        Saved& saved) const override {
    const Tensor dy = before_relu(backend, layer_, saved.tensors[0], output_gradient);
    Tensor dx = backend.allocate(input.shape, input.precision);
    backend.max_pool_input(dy, input, shape(samples), dx);
    saved.tensors.clear();
    return dx;
  }

  void backward_weight(Backend&, std::span<Parameter>, const Samples&, const Tensor&,
                       Saved&) const override {}

 private:
  PoolShape shape(const Samples& samples) const {
    const auto& [input, output, kernel, relu] = layer_.numbers;
    return {
        .samples = samples.count, .channels = input.channels, .size = input.size, .window = kernel};
  }

  TrainableImageLayer layer_;
};

}  // namespace

std::unique_ptr<TrainableLayer> make_pool(const Model& model, int index, TensorPeers* peers) {
  return std::make_unique<Pool>(trainable_image_layer(model, index, peers));
}

}  // namespace stagecraft
