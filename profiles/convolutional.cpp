#include "profiles/convolutional.hpp"

#include <array>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// What flows between layers: channels x size x size.
struct Image {
  std::int64_t channels = 0;
  std::int64_t size = 0;
};

std::int64_t elements(const Image& image) {
  return image.channels * image.size * image.size;
}

struct Convolution {
  std::int64_t channels = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  bool batch_norm = false;  ///< then scale and shift instead of a bias
};

/// A model under construction: each `add…` appends a layer that reads the given ones.
class Network {
 public:
  explicit Network(std::string name) { model_.name = std::move(name); }

  Model take() { return std::move(model_); }

  /// The layer's index and what it hands on.
  struct Output {
    int layer = -1;
    Image image;
  };

  Output convolution(const std::string& name, const Output& input, const Convolution& shape) {
    const Image image{shape.channels, (input.image.size + shape.stride - 1) / shape.stride};
    const std::int64_t weights =
        shape.channels * input.image.channels * shape.kernel * shape.kernel;
    const std::int64_t extra = shape.batch_norm ? 2 * shape.channels : shape.channels;
    const double flops = 2.0 * static_cast<double>(weights * image.size * image.size);
    return add({.name = name,
                .kind = LayerKind::convolution,
                .parameters = weights + extra,
                .flops_forward = flops},
               {input}, image);
  }

  Output pool(const std::string& name, const Output& input, std::int64_t size) {
    return add({.name = name, .kind = LayerKind::pool}, {input}, {input.image.channels, size});
  }

  Output sum(const std::string& name, const Output& branch, const Output& shortcut) {
    return add({.name = name,
                .kind = LayerKind::activation,
                .flops_forward = static_cast<double>(elements(branch.image))},
               {branch, shortcut}, branch.image);
  }

  Output dense(const std::string& name, const Output& input, std::int64_t width) {
    const std::int64_t weights = elements(input.image) * width;
    return add({.name = name,
                .kind = LayerKind::dense,
                .parameters = weights + width,
                .flops_forward = 2.0 * static_cast<double>(weights)},
               {input}, {width, 1});
  }

 private:
  Output add(Layer layer, const std::vector<Output>& inputs, Image image) {
    const int index = static_cast<int>(model_.layers.size());
    layer.output_elements = elements(image);
    model_.layers.push_back(std::move(layer));
    for (const Output& input : inputs) {
      if (input.layer >= 0) model_.edges.push_back({input.layer, index});
    }
    return {index, image};
  }

  Model model_;
};

constexpr Image picture{3, 224};

/// 1x1 down, 3x3, 1x1 up to four times the width, and the shortcut around them.
Network::Output bottleneck(Network& network, const std::string& name, const Network::Output& input,
                           std::int64_t width, std::int64_t stride) {
  const auto convolution = [&](const char* part, const Network::Output& from, Convolution shape) {
    shape.batch_norm = true;
    return network.convolution(name + part, from, shape);
  };
  const auto down = convolution(".conv1", input, {.channels = width, .kernel = 1});
  const auto middle = convolution(".conv2", down, {.channels = width, .stride = stride});
  const auto up = convolution(".conv3", middle, {.channels = 4 * width, .kernel = 1});
  if (input.image.channels == 4 * width) return network.sum(name + ".add", up, input);
  const auto shortcut =
      convolution(".shortcut", input, {.channels = 4 * width, .kernel = 1, .stride = stride});
  return network.sum(name + ".add", up, shortcut);
}

}  // namespace

Model make_vgg16() {
  struct Group {
    int convolutions;
    std::int64_t channels;
  };
  constexpr std::array groups{Group{2, 64}, Group{2, 128}, Group{3, 256}, Group{3, 512},
                              Group{3, 512}};
  Network network("vgg16");
  Network::Output last{.image = picture};
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (int i = 1; i <= groups[group].convolutions; ++i) {
      last = network.convolution(concat("conv", group + 1, "_", i), last,
                                 {.channels = groups[group].channels});
    }
    last = network.pool(concat("pool", group + 1), last, last.image.size / 2);
  }
  last = network.dense("fc6", last, 4096);
  last = network.dense("fc7", last, 4096);
  network.dense("fc8", last, 1000);
  return network.take();
}

Model make_resnet50() {
  constexpr std::array blocks{3, 4, 6, 3};
  Network network("resnet50");
  Network::Output last = network.convolution(
      "conv1", {.image = picture}, {.channels = 64, .kernel = 7, .stride = 2, .batch_norm = true});
  last = network.pool("maxpool", last, 56);
  std::int64_t width = 64;
  for (std::size_t group = 0; group < blocks.size(); ++group) {
    for (int block = 0; block < blocks[group]; ++block) {
      const std::int64_t stride = group > 0 && block == 0 ? 2 : 1;
      last = bottleneck(network, concat("layer", group + 1, ".", block), last, width, stride);
    }
    width *= 2;
  }
  last = network.pool("avgpool", last, 1);
  network.dense("fc", last, 1000);
  return network.take();
}

}  // namespace stagecraft
