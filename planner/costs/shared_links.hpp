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

/// Who shares the links of a cluster.
struct LinkSharing {
  Sharing sharing = Sharing::fair;
  /// Neighbours behind one link out of, and one into, their part of a level; default: all of it.
  std::optional<int> devices_per_link;
};

/// Program device i stands for cluster device `devices[i]`. Each part of a level (each node, in a
/// node each device) has links out and in with the level's point-to-point bandwidth; a pair with a
/// link of its own (an override) has that. Alone on its links, a message takes as long as `costs`
/// says, and so does a collective, which occupies all links between the members of its ring.
/// Messages that do not cost what their link says (measured hand-overs) and unlimited links are
/// left out. Throws Error (usage) unless `devices_per_link` is at least 1.
Network shared_network(const Program& program, const Costs& costs, const std::vector<int>& devices,
                       const Cluster& cluster, const LinkSharing& sharing);

}  // namespace stagecraft
