#include "profiles/convolutional.hpp"

#include <array>
#include <span>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

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

  /// Like `convolution`, with kernels of 3 x 3 and ReLU.
  Output vgg_convolution(const std::string& name, const Output& input, std::int64_t channels) {
    const Output output = convolution(name, input, {.channels = channels});
    describe(output, input, {.kernel = 3, .relu = true});
    return output;
  }

  /// The largest of each 2 x 2 numbers.
  Output halve(const std::string& name, const Output& input) {
    const Output output = pool(name, input, input.image.size / 2);
    describe(output, input, {.kernel = 2});
    return output;
  }

  Output pool(const std::string& name, const Output& input, std::int64_t size) {
    return add({.name = name, .kind = LayerKind::pool}, {input}, {input.image.channels, size});
  }

  Output sum(const std::string& name, const Output& branch, const Output& shortcut) {
    return add({.name = name,
                .kind = LayerKind::activation,
                .flops_forward = static_cast<double>(branch.image.elements())},
               {branch, shortcut}, branch.image);
  }

  Output dense(const std::string& name, const Output& input, std::int64_t width, bool relu) {
    const std::int64_t weights = input.image.elements() * width;
    const Output output = add({.name = name,
                               .kind = LayerKind::dense,
                               .parameters = weights + width,
                               .flops_forward = 2.0 * static_cast<double>(weights)},
                              {input}, {width, 1});
    describe(output, input, {.relu = relu});
    return output;
  }

 private:
  void describe(const Output& output, const Output& input, ImageLayer numbers) {
    numbers.input = input.image;
    numbers.output = output.image;
    model_.layers[static_cast<std::size_t>(output.layer)].image = numbers;
  }

  Output add(Layer layer, const std::vector<Output>& inputs, Image image) {
    const int index = static_cast<int>(model_.layers.size());
    layer.output_elements = image.elements();
    model_.layers.push_back(std::move(layer));
    for (const Output& input : inputs) {
      if (input.layer >= 0) model_.edges.push_back({input.layer, index});
    }
    return {index, image};
  }

  Model model_;
};

constexpr Image photograph{3, 224};

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

/// Groups of convolutions, each of which ends with half the size.
struct Group {
  int convolutions;
  std::int64_t channels;
};

Network::Output vgg_groups(Network& network, Image picture, std::span<const Group> groups) {
  Network::Output last{.image = picture};
  int number = 0;
  for (const Group& group : groups) {
    ++number;
    for (int i = 1; i <= group.convolutions; ++i) {
      last = network.vgg_convolution(concat("conv", number, "_", i), last, group.channels);
    }
    last = network.halve(concat("pool", number), last);
  }
  return last;
}

}  // namespace

Model make_vgg16() {
  constexpr std::array groups{Group{2, 64}, Group{2, 128}, Group{3, 256}, Group{3, 512},
                              Group{3, 512}};
  Network network("vgg16");
  Network::Output last = vgg_groups(network, photograph, groups);
  last = network.dense("fc6", last, 4096, true);
  last = network.dense("fc7", last, 4096, true);
  network.dense("fc8", last, 1000, false);
  return network.take();
}

Model make_vgg_small() {
  constexpr std::array groups{Group{2, 16}, Group{2, 32}, Group{2, 64}};
  Network network("vgg-small");
  Network::Output last = vgg_groups(network, {3, 32}, groups);
  last = network.dense("fc4", last, 256, true);
  last = network.dense("fc5", last, 256, true);
  network.dense("fc6", last, 10, false);
  return network.take();
}

Model make_resnet50() {
  constexpr std::array blocks{3, 4, 6, 3};
  Network network("resnet50");
  Network::Output last =
      network.convolution("conv1", {.image = photograph},
                          {.channels = 64, .kernel = 7, .stride = 2, .batch_norm = true});
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
  network.dense("fc", last, 1000, false);
  return network.take();
}

}  // namespace stagecraft
