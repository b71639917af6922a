// The devices to plan for: CLUSTER, or those in MODEL's file, with the flags that override them.

#pragma once

#include <optional>
#include <string>

#include "profiles/cluster.hpp"
#include "profiles/profile.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Flags as they were given.
struct DeviceOptions {
  std::string cluster, memory, bandwidth;
  int devices = 0;
};

/// CLUSTER, --devices, --memory and --bandwidth.
void declare_devices(CLI::App& app, DeviceOptions& options);

struct ChosenDevices {
  std::string name;  ///< CLUSTER as a plan's file names it
  Cluster cluster;
  std::string hash;               ///< hash of CLUSTER before the flags change it; empty without one
  std::optional<int> first;       ///< number of first devices of CLUSTER to use
  std::optional<OwnDevices> own;  ///< devices of MODEL's file, as changed by the flags, if there is
                                  ///< no CLUSTER
};

/// Throws Error (usage) if there is no CLUSTER and the file has no devices. Without a CLUSTER,
/// --devices and --bandwidth are part of the name; memory is not.
ChosenDevices choose_devices(const DeviceOptions& options, const Profile& profile);

}  // namespace stagecraft
