// The network that messages share: its links, and the way that each message takes.

#pragma once

#include <string_view>
#include <vector>

#include "profiles/units.hpp"

namespace stagecraft {

/// Who may use a link that several messages want at once.
enum class Sharing {
  fair,  ///< all of them, at max-min fair rates: no rate can grow but at the cost of one that is
         ///< not larger
  fifo,  ///< one at a time, in order of arrival: a message crosses all its links at once, when it
         ///< is the first in line at each of them
};
std::string_view to_string(Sharing sharing);  ///< "fair", "fifo"
Sharing read_sharing(std::string_view name);

/// What one message (or collective) sends, and across which links.
struct Route {
  std::vector<int> links;  ///< crossed at the same time; each at most once
  Bytes bytes = 0;         ///< through each of them
  bool operator==(const Route&) const = default;
};

/// A message whose route has links is on the way as long as its bytes need to cross them, instead
/// of its channel's occupancy (its latency stays); a collective likewise instead of its group's
/// time.
struct Network {
  std::vector<Bandwidth> links;
  Sharing sharing = Sharing::fair;
  std::vector<Route> channels;  ///< parallel to the program's; empty, or without links: not on it
  std::vector<Route> groups;    ///< likewise
  bool operator==(const Network&) const = default;
};

}  // namespace stagecraft
