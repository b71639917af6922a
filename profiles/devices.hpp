// The built-in device kinds, and the links that usually join such devices.

#pragma once

#include <string>
#include <string_view>

#include "profiles/cluster.hpp"

namespace stagecraft {

/// Inside a box (NVLink, PCIe, shared memory), and of one network port between boxes.
struct KindLinks {
  Link inside;
  Link between;
  int rails = 1;  ///< ports of a box
  int box = 8;    ///< the largest group that is taken to share one where nothing says otherwise
};

/// The links of a built-in kind. Throws Error (usage) for an unknown one.
KindLinks builtin_links(std::string_view kind);

/// The links of a device to its peers in a box, and its PCIe slot. Rates are GB/s in one direction.
struct DeviceFabric {
  std::string_view name;   ///< "NVLink", "xGMI"; empty where devices have none
  int links = 0;           ///< number of links of one device
  double link = 0;         ///< rate of one link, by the data sheet
  double usable_link = 0;  ///< rate of one link that NCCL (graph/topo.h) or RCCL assume
  double pcie = 0;         ///< rate of the slot
};
/// The links of a built-in kind. Throws Error (usage) for an unknown one.
DeviceFabric builtin_fabric(std::string_view kind);

/// A kind of device as machines are made of it.
struct KnownDevice {
  DeviceKind kind;
  KindLinks links;
  DeviceFabric fabric;  ///< user-defined kinds have none: their links say all
};
/// A built-in kind by its name or product, or the only kind of a cluster's file, with that file's
/// links. Throws Error (usage) for an unknown name, (input) for a file with several kinds.
KnownDevice device_named(std::string_view name_or_file);

}  // namespace stagecraft
