#include "executor/layers/layers.hpp"

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

std::vector<std::string> trainable_kinds() {
  std::vector<std::string> kinds;
  for (const LayerMaker& maker : layer_makers) kinds.emplace_back(to_string(maker.kind));
  return kinds;
}

}  // namespace

std::unique_ptr<TrainableLayer> make_layer(const Model& model, int index, TensorPeers* peers) {
  const Layer& layer = model.layers.at(static_cast<std::size_t>(index));
  const auto maker = std::ranges::find(layer_makers, layer.kind, &LayerMaker::kind);
  if (maker == layer_makers.end()) {
    fail("cannot train layer \"", layer.name, "\" of kind ", to_string(layer.kind),
         "; kinds that can be trained: ", join_words(trainable_kinds()));
  }
  return maker->make(model, index, peers);
}

}  // namespace stagecraft
