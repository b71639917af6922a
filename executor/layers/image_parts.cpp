#include "executor/layers/image_parts.hpp"

#include <cmath>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// The layer before, or -1 for the first; fails where the network is no chain.
int producer(const Model& model, int index) {
  int from = -1;
  int count = 0;
  for (const Edge& edge : model.edges) {
    if (edge.to != index) continue;
    from = edge.from;
    ++count;
  }
  if (from == index - 1 && count <= 1) return from;
  fail("cannot train layer \"", model.layers[static_cast<std::size_t>(index)].name, "\" of ",
       model.name, ": it does not read exactly the layer before it");
}

std::int64_t expected_parameters(LayerKind kind, const ImageLayer& numbers) {
  const std::int64_t outputs = numbers.output.channels;
  switch (kind) {
    case LayerKind::convolution:
      return outputs * (numbers.input.channels * numbers.kernel * numbers.kernel + 1);
    case LayerKind::dense: return outputs * (numbers.input.elements() + 1);
    default: return 0;
  }
}

/// What the numbers of a layer get wrong, or nothing.
std::string mistake(const Layer& layer, const ImageLayer& numbers) {
  const auto& [input, output, kernel, relu] = numbers;
  if (layer.kind == LayerKind::convolution && (kernel % 2 == 0 || output.size != input.size)) {
    return "a convolution has a kernel of odd width and keeps the image's size";
  }
  if (layer.kind == LayerKind::pool &&
      (output.channels != input.channels || output.size * kernel != input.size)) {
    return "a pool keeps the channels and divides the size by its kernel";
  }
  if (layer.kind == LayerKind::dense && output.size != 1)
    return "a dense layer's output has size 1";
  if (layer.output_elements != output.elements()) {
    return concat("it hands on ", layer.output_elements, " elements, but its image has ",
                  output.elements());
  }
  if (layer.parameters != expected_parameters(layer.kind, numbers)) {
    return concat("it has ", layer.parameters, " parameters, but its image needs ",
                  expected_parameters(layer.kind, numbers));
  }
  return {};
}

}  // namespace

TrainableImageLayer trainable_image_layer(const Model& model, int index, const TensorPeers* peers) {
  const Layer& layer = model.layers.at(static_cast<std::size_t>(index));
  const auto refuse = [&](const std::string& reason) {
    fail("cannot train layer \"", layer.name, "\" of ", model.name, ": ", reason);
  };
  if (peers != nullptr) refuse("layers of images are not split over tensor-parallel devices");
  if (!layer.image) refuse("the numbers of its images are not known");
  const int before = producer(model, index);
  if (before >= 0) {
    const auto& other = model.layers[static_cast<std::size_t>(before)].image;
    if (!other || other->output.elements() != layer.image->input.elements()) {
      refuse("its input is not what the layer before it hands on");
    }
  }
  if (const std::string reason = mistake(layer, *layer.image); !reason.empty()) refuse(reason);
  const bool last = index + 1 == static_cast<int>(model.layers.size());
  if (last && (layer.kind != LayerKind::dense || layer.image->relu)) {
    refuse("the last layer, which has the loss, is a dense one without ReLU");
  }
  return {.name = layer.name, .numbers = *layer.image, .first = before < 0, .last = last};
}

Tensor allocate_images(Backend& backend, const Samples& samples, const Image& image,
                       Precision precision) {
  return backend.allocate({samples.count, 1, image.elements()}, precision);
}

Tensor image_input(Backend& backend, const TrainableImageLayer& layer, const Samples& samples,
                   const Tensor& input, Precision precision) {
  if (!layer.first) return input;
  Tensor pixels = allocate_images(backend, samples, layer.numbers.input, precision);
  backend.images(samples.tokens, pixels);
  return pixels;
}

Tensor before_relu(Backend& backend, const TrainableImageLayer& layer, const Tensor& y,
                   const Tensor& dy) {
  if (!layer.numbers.relu) return dy;
  Tensor gradient = backend.allocate(dy.shape, dy.precision);
  backend.relu_input(dy, y, gradient);
  return gradient;
}

Initialization rectified_start(std::int64_t inputs) {
  return {.deviation = std::sqrt(2.0 / static_cast<double>(inputs))};
}

}  // namespace stagecraft
