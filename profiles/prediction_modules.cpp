#include "profiles/prediction_modules.hpp"

#include <algorithm>

namespace stagecraft {

int prediction_modules(const Model& model) {
  return static_cast<int>(std::ranges::count(model.layers, LayerKind::prediction, &Layer::kind));
}

Model without_prediction(const Model& model) {
  if (prediction_parameters(model) == 0) return model;
  Model without = model;
  without.layers.clear();
  without.edges.clear();
  std::vector<int> places;  // of the layers that stay, by their place before
  for (const Layer& layer : model.layers) {
    const bool stays = layer.kind != LayerKind::prediction;
    places.push_back(static_cast<int>(without.layers.size()) - (stays ? 0 : 1));
    if (stays) without.layers.push_back(layer);
  }
  // A module's place is that of the last layer before it, whose state it hands on.
  const auto place_of = [&](int layer) { return places[static_cast<std::size_t>(layer)]; };
  for (const Edge& edge : model.edges) {
    if (place_of(edge.from) != place_of(edge.to))
      without.edges.push_back({place_of(edge.from), place_of(edge.to)});
  }
  for (Tie& tie : without.ties) {
    tie.owner = place_of(tie.owner);
    tie.user = place_of(tie.user);
  }
  if (without.transformer) without.transformer->prediction_modules = 0;
  return without;
}

}  // namespace stagecraft
