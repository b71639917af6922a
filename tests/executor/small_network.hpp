// Networks of images so small that every number can be varied.

#pragma once

#include <string>
#include <vector>

#include "profiles/model.hpp"

namespace stagecraft::tests {

/// A chain of these layers, with counts that fit their numbers.
inline Model chain_of(std::string name, const std::vector<std::pair<LayerKind, ImageLayer>>& list) {
  Model model{.name = std::move(name)};
  for (const auto& [kind, numbers] : list) {
    std::int64_t parameters = 0;
    if (kind == LayerKind::convolution) {
      parameters =
          numbers.output.channels * (numbers.input.channels * numbers.kernel * numbers.kernel + 1);
    }
    if (kind == LayerKind::dense) {
      parameters = numbers.output.channels * (numbers.input.elements() + 1);
    }
    const int index = static_cast<int>(model.layers.size());
    if (index > 0) model.edges.push_back({index - 1, index});
    model.layers.push_back({.name = std::string(to_string(kind)) + std::to_string(index),
                            .kind = kind,
                            .parameters = parameters,
                            .flops_forward = 1e3,
                            .output_elements = numbers.output.elements(),
                            .image = numbers});
  }
  return model;
}

/// Whether the executor has layers for it.
inline bool can_be_trained(const Model& model) {
  if (!model.transformer) return model.layers.front().image.has_value();
  const Transformer& shape = *model.transformer;
  return shape.causal && !shape.token_types && !shape.experts && !shape.latent && !shape.patches &&
         shape.untrainable.empty();
}

/// For images of 2 x 4 x 4 in 5 classes: every kind of layer, with and without ReLU, as the first
/// one or a later one.
inline std::vector<Model> small_networks() {
  using enum LayerKind;
  return {
      chain_of("net", {{convolution, {{2, 4}, {3, 4}, 3, true}},
                       {pool, {{3, 4}, {3, 2}, 2}},
                       {convolution, {{3, 2}, {2, 2}, 1}},
                       {convolution, {{2, 2}, {4, 2}, 5, true}},
                       {pool, {{4, 2}, {4, 1}, 2, true}},
                       {dense, {{4, 1}, {6, 1}, 1, true}},
                       {dense, {{6, 1}, {6, 1}}},
                       {dense, {{6, 1}, {5, 1}}}}),
      chain_of("flat", {{dense, {{2, 4}, {7, 1}, 1, true}}, {dense, {{7, 1}, {5, 1}}}}),
  };
}

}  // namespace stagecraft::tests
