// `profile links`: what copies, messages and sums cost here, or among processes that were started
// together, and the cluster that is like that.

#pragma once

#include <string>

#include "tools/console.hpp"
#include "tools/inputs/measured_device.hpp"
#include "tools/launch/processes_of_run.hpp"

namespace stagecraft {

/// Flags as they were given.
struct LinkFlags {
  ProcessOptions processes;
  std::string sums;
};

/// --transport, -n, --hosts and --sums.
void declare_links(CLI::App& app, LinkFlags& flags);
/// Throws Error (usage) where flags about links were given to what measures layers.
void require_layers(const LinkFlags& flags);

/// Measures, prints, and writes the cluster to -o. Returns the exit code.
int profile_links(Console& console, const DeviceFlags& device, const LinkFlags& flags);

}  // namespace stagecraft
