// All layers that the executor can train. To add one: write layers/NAME.cpp, declare its maker
// here, add a row.

#pragma once

#include <array>
#include <memory>

#include "executor/layers/layer.hpp"

namespace stagecraft {

struct LayerMaker {
  LayerKind kind;
  /// Makes layer `index` of the model, or this peer's part of it. Throws Error (input), with the
  /// supported cases, if the executor cannot train it.
  std::unique_ptr<TrainableLayer> (*make)(const Model& model, int index, TensorPeers* peers);
  std::string_view summary;
};

std::unique_ptr<TrainableLayer> make_embedding(const Model& model, int index, TensorPeers* peers);
std::unique_ptr<TrainableLayer> make_transformer_block(const Model& model, int index,
                                                       TensorPeers* peers);
std::unique_ptr<TrainableLayer> make_head(const Model& model, int index, TensorPeers* peers);
std::unique_ptr<TrainableLayer> make_convolution(const Model& model, int index, TensorPeers* peers);
std::unique_ptr<TrainableLayer> make_pool(const Model& model, int index, TensorPeers* peers);
std::unique_ptr<TrainableLayer> make_dense(const Model& model, int index, TensorPeers* peers);

inline constexpr std::array layer_makers{
    LayerMaker{LayerKind::embedding, make_embedding,
               "token embedding, with learned positions if the model has them"},
    LayerMaker{LayerKind::transformer, make_transformer_block,
               "block with norms before, behind or around: causal attention, then a feed-forward"},
    LayerMaker{LayerKind::expert_transformer, make_transformer_block,
               "block whose feed-forward is a choice of experts"},
    LayerMaker{LayerKind::head, make_head,
               "final norm, vocabulary projection (tied or not) and cross-entropy"},
    LayerMaker{LayerKind::convolution, make_convolution, "convolution, then ReLU"},
    LayerMaker{LayerKind::pool, make_pool, "the largest number of each square"},
    LayerMaker{LayerKind::dense, make_dense,
               "linear map, then ReLU, or the loss of a network of images"},
};

/// Layer `index`; with `peers`, which must outlive it, this peer's part. Throws Error (input),
/// naming the kinds that can be trained, or the reason why the layer cannot be divided.
std::unique_ptr<TrainableLayer> make_layer(const Model& model, int index,
                                           TensorPeers* peers = nullptr);

}  // namespace stagecraft
