// The flags for shared links of a cluster.

#pragma once

#include <optional>
#include <string>

#include "planner/costs/shared_links.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Flags as they were given; empty: links are not shared.
struct SharingOptions {
  std::string sharing;
  std::optional<int> devices_per_link;
};

/// --sharing, with this help, and --devices-per-link.
void declare_sharing(CLI::App& app, SharingOptions& options, const std::string& help);

/// Nothing if links are not shared. Throws Error (usage) for --devices-per-link alone.
std::optional<LinkSharing> read_link_sharing(const SharingOptions& options);

}  // namespace stagecraft
