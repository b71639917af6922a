// `profile links`: measures copies, messages and sums on this machine, or among processes that were
// started together, and writes a cluster with these links.

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
/// Throws Error (usage) if flags about links were given for a measurement of layers.
void require_layers(const LinkFlags& flags);

/// Measures, prints, and writes the cluster to -o. Returns the exit code.
int profile_links(Console& console, const DeviceFlags& device, const LinkFlags& flags);

}  // namespace stagecraft
