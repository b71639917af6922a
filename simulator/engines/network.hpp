// The network that messages share: its links, and the route of each message.

#pragma once

#include <string_view>
#include <vector>

#include "profiles/units.hpp"

namespace stagecraft {

/// How concurrent messages share a link.
enum class Sharing {
  fair,  ///< all at once, at max-min fair rates: no rate can grow without lowering one that is not
         ///< larger
  fifo,  ///< one at a time, in order of arrival: a message occupies all its links at once, when it
         ///< is first in the queue of each
};
std::string_view to_string(Sharing sharing);  ///< "fair", "fifo"
Sharing read_sharing(std::string_view name);

/// The bytes of one message (or collective), and the links that it crosses.
struct Route {
  std::vector<int> links;  ///< links, all crossed at the same time; each at most once
  Bytes bytes = 0;         ///< bytes through each of these links
  bool operator==(const Route&) const = default;
};

/// For a message whose route has links, the time that its bytes need to cross them replaces the
/// occupancy of its channel (its latency stays); for a collective, it replaces its group's time.
struct Network {
  std::vector<Bandwidth> links;
  Sharing sharing = Sharing::fair;
  std::vector<Route> channels;  ///< one for each of the program's channels; empty, or a route
                                ///< without links: not shared
  std::vector<Route> groups;    ///< one for each of the program's groups
  bool operator==(const Network&) const = default;
};

}  // namespace stagecraft
