// What the layers of a convolutional network have in common. Their tensors are [samples, 1,
// channels x size x size], so that they cut into rows as those of transformers do.

#pragma once

#include "executor/layers/layer.hpp"

namespace stagecraft {

/// One layer of a network of images, and its place in it.
struct TrainableImageLayer {
  std::string name;
  ImageLayer numbers;
  bool first = false;  ///< its input are the samples' pixels
  bool last = false;   ///< its output is turned into the loss
};

/// Throws Error (input) unless the executor can train layer `index`: a link of a chain, with
/// numbers that fit those of its neighbours and its count of parameters.
/// Nor does it split layers over `peers`.
TrainableImageLayer trainable_image_layer(const Model& model, int index, const TensorPeers* peers);

/// The layer's input: the samples' pixels for the first one, else `input`.
Tensor image_input(Backend& backend, const TrainableImageLayer& layer, const Samples& samples,
                   const Tensor& input, Precision precision);

/// An uninitialised image for each sample.
Tensor allocate_images(Backend& backend, const Samples& samples, const Image& image,
                       Precision precision);

/// The gradient before ReLU, from that of the output `y`.
Tensor before_relu(Backend& backend, const TrainableImageLayer& layer, const Tensor& y,
                   const Tensor& dy);

/// He et al., "Delving deep into rectifiers" (2015): normal, so that ReLU keeps the variance of
/// what `inputs` numbers add up to.
Initialization rectified_start(std::int64_t inputs);

}  // namespace stagecraft
