// Times of the messages between a layer's peers over a cluster's links: all-reduces, or gathers and
// scatters, of tensor-parallel peers (Shoeybi et al. 2019, Korthikanti et al. 2022), the ring of
// keys and values of context-parallel peers (Liu et al. 2023), and the token exchange between
// experts (Lepikhin et al. 2020).

#pragma once

#include "profiles/cluster.hpp"
#include "profiles/collectives.hpp"
#include "profiles/operations.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// The devices of a group: `count` devices with distance `stride`. The first one is at the start of
/// a part of the cluster, if groups of this size nest in its levels.
struct PeerSpan {
  int members = 1;
  int stride = 1;
  bool operator==(const PeerSpan&) const = default;
};

/// The slowest link between them: what a ring over them runs at.
Link span_link(const Cluster& cluster, const PeerSpan& span);

/// The group of them, for collectives.
DeviceGroup span_group(const Cluster& cluster, const PeerSpan& span);

/// The time that a ring of keys and values adds to overlapped attention: `bytes` go around in n - 1
/// messages, each overlapped with 1/n of `attention`.
Duration ring_exchange_time(const Link& link, int members, Bytes bytes, Duration attention);

/// Adds the messages of each layer's operations to costs without messages. Gathers for weight
/// gradients overlap with the products of the input gradient. The layers must be a transformer's.
/// Throws Error (input) if a degree does not divide the model evenly.
std::vector<LayerCost> with_peer_messages(std::vector<LayerCost> costs, const Model& model,
                                          const Cluster& cluster, const DeviceKind& device,
                                          const CostSetting& setting);

/// `layer_costs`, and what peers tell each other where that is not in them: in entries that were
/// measured without peers, added up; in estimates together with kernels and the host's work, so
/// that a layer takes what it takes in a recipe (planner/calibration/recipe.hpp).
std::vector<LayerCost> costs_with_messages(const Profile& profile, const Cluster& cluster,
                                           const DeviceKind& device, const CostSetting& setting);

}  // namespace stagecraft
