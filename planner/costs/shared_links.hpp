// The network of a cluster for the event engine: which messages cross the same links.
//
//   node 0                       node 1         a message from device 1 to device 2 crosses node
//   0's ├ 0 ┐                        ┌ 2 ┤          way out and node 1's way in; so does one from 0
//   to 3, └ 1 ┴─ out ═▶ … ═▶ in ───────┴ 3 ┘          at the same time: they share both

#pragma once

#include <optional>
#include <vector>

#include "profiles/cluster.hpp"
#include "simulator/engines/network.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

/// Which devices share the links of a cluster.
struct LinkSharing {
  Sharing sharing = Sharing::fair;
  /// Number of neighbouring devices behind one pair of links out of, and into, their part of a
  /// level; default: all devices of the part.
  std::optional<int> devices_per_link;
};

/// The network of a program; program device i stands for cluster device `devices[i]`. Each part of
/// a level (each node, and each device in a node) has links out and in with the level's
/// point-to-point bandwidth; a pair with an override has that link. Alone on its links, a message
/// takes the time in `costs`, and so does a collective, which occupies all links between the
/// members of its ring. Messages whose cost is not that of their link (measured transfers) and
/// unlimited links are left out. Throws Error (usage) unless `devices_per_link` is at least 1.
Network shared_network(const Program& program, const Costs& costs, const std::vector<int>& devices,
                       const Cluster& cluster, const LinkSharing& sharing);

}  // namespace stagecraft
