// How devices share the work of a layer, beside tensor parallelism.

#pragma once

namespace stagecraft {

/// Degrees that hold for all layers of a transformer. The devices of a replica are its tensor x
/// context peers, tensor fastest; experts are spread over the devices of a stage in that order, its
/// replicas' one after another.
struct Parallelism {
  /// Tensor-parallel peers share the tokens between their products: all-gathers and reduce-scatters
  /// take the place of all-reduces (Korthikanti et al. 2022). Without peers it changes nothing.
  bool sequence = false;
  /// Peers share the tokens of a sequence; keys and values go around (Liu et al. 2023, ring
  /// attention). All of them hold the same weights.
  int context = 1;
  /// Devices that hold different experts: tokens are sent to them and back (Lepikhin et al. 2020).
  int expert = 1;
  /// Devices that share each expert; 0: as many as are tensor-parallel.
  int expert_tensor = 0;
  /// Tokens that the experts of the busiest device get, over the mean of all; 1: routing is even.
  double expert_load = 1;
  /// Maximum number of nodes on which the router chooses a token's experts (DeepSeek-V3, section
  /// 2.1.2): one copy goes to each of these nodes, which distributes it inside. 0: a copy to every
  /// expert.
  int expert_nodes = 0;
  bool operator==(const Parallelism&) const = default;
};

/// Devices that share each expert, where `tensor` share what is dense.
inline int expert_tensor_of(const Parallelism& parallelism, int tensor) {
  return parallelism.expert_tensor > 0 ? parallelism.expert_tensor : tensor;
}

}  // namespace stagecraft
