// What the messages between a layer's peers take over a cluster's links: all-reduces, or gathers
// and scatters, of tensor-parallel peers (Shoeybi et al. 2019, Korthikanti et al. 2022), the ring
// of keys and values of context-parallel ones (Liu et al. 2023), and the exchange of tokens between
// experts (Lepikhin et al. 2020).

#pragma once

#include "profiles/cluster.hpp"
#include "profiles/collectives.hpp"
#include "profiles/operations.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// Devices of a group: so many, each `stride` after the one before. The first stands where a part
/// of the cluster begins, as long as groups of this size nest in its levels.
struct PeerSpan {
  int members = 1;
  int stride = 1;
  bool operator==(const PeerSpan&) const = default;
};

/// The slowest link between them: what a ring over them runs at.
Link span_link(const Cluster& cluster, const PeerSpan& span);

/// The group of them, for collectives.
DeviceGroup span_group(const Cluster& cluster, const PeerSpan& span);

/// What a ring of keys and values adds to attention that is computed meanwhile, part by part:
/// `bytes` go around in n - 1 messages, each beside 1/n of `attention`.
Duration ring_exchange_time(const Link& link, int members, Bytes bytes, Duration attention);

/// The costs, which leave messages out, with those of each layer's operations. Gathers for weight
/// gradients run beside the products of the input's gradient. Layers are a transformer's. Throws
/// Error (input) if a degree does not divide what it is to divide.
std::vector<LayerCost> with_peer_messages(std::vector<LayerCost> costs, const Model& model,
                                          const Cluster& cluster, const DeviceKind& device,
                                          const CostSetting& setting);

/// `layer_costs`, and what peers tell each other where that is not in them: in entries that were
/// measured without peers, added up; in estimates together with kernels and the host's work, so
/// that a layer takes what it takes in a recipe (planner/calibration/recipe.hpp).
std::vector<LayerCost> costs_with_messages(const Profile& profile, const Cluster& cluster,
                                           const DeviceKind& device, const CostSetting& setting);

}  // namespace stagecraft
