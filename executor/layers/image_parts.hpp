// Common parts of the layers of convolutional networks. Their tensors are [samples, 1, channels x
// size x size], so that they can be cut into rows like those of transformers.

#pragma once

#include "executor/layers/layer.hpp"

namespace stagecraft {

/// One layer of an image network, and its place in it.
struct TrainableImageLayer {
  std::string name;
  ImageLayer numbers;
  bool first = false;  ///< its input is the samples' pixels
  bool last = false;   ///< its output gives the loss
};

/// Throws Error (input) unless the executor can train layer `index`: it must be part of a chain,
/// with sizes that match those of its neighbours and its number of parameters. Throws as well if
/// there are `peers`, since such layers are not divided.
TrainableImageLayer trainable_image_layer(const Model& model, int index, const TensorPeers* peers);

/// The layer's input: the samples' pixels for the first layer, else `input`.
Tensor image_input(Backend& backend, const TrainableImageLayer& layer, const Samples& samples,
                   const Tensor& input, Precision precision);

/// An uninitialised image for each sample.
Tensor allocate_images(Backend& backend, const Samples& samples, const Image& image,
                       Precision precision);

/// The gradient before ReLU, from the gradient of the output `y`.
Tensor before_relu(Backend& backend, const TrainableImageLayer& layer, const Tensor& y,
                   const Tensor& dy);

/// Initialisation by He et al., "Delving deep into rectifiers" (2015): normal, with the deviation
/// at which sums over `inputs` numbers keep their variance through ReLU.
Initialization rectified_start(std::int64_t inputs);

}  // namespace stagecraft
