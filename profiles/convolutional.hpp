// The built-in convolutional networks: as published, for images of 3 x 224 x 224, and a small one.

#pragma once

#include "profiles/model.hpp"

namespace stagecraft {

/// Simonyan and Zisserman 2014, configuration D. A ReLU belongs to the layer before it.
Model make_vgg16();

/// A VGG of 6 convolutions for images of 3 x 32 x 32 in 10 classes: most of its work is in the
/// convolutions and most of its weights in the dense layers, which is what makes a planner
/// replicate the first stage more often than the last.
Model make_vgg_small();

/// He et al. 2015, with the stride of a bottleneck in its 3x3 convolution (as torchvision has it).
/// Batch normalisation and ReLU belong to their convolution; a shortcut is an edge around it.
Model make_resnet50();

}  // namespace stagecraft
