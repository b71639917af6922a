// One machine as tools of its vendor describe it: which way its devices reach each other, and which
// network ports are near which device. A cluster of one box comes of it.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiles/cluster.hpp"
#include "profiles/nvlink.hpp"

namespace stagecraft {

/// What lies between two devices on PCIe, as `nvidia-smi topo -m` calls it; the nearest first.
enum class PciPath {
  pix,   ///< one switch
  pxb,   ///< several switches
  phb,   ///< a host bridge: the CPU
  node,  ///< host bridges of one NUMA node
  sys,   ///< the link between NUMA nodes
};
std::string_view to_string(PciPath path);  ///< "PIX"
std::optional<PciPath> pci_path_named(std::string_view word);

struct NetworkPort {
  std::string name;                 ///< "mlx5_0"
  std::optional<Bandwidth> speed;   ///< where the tool says it
  std::vector<PciPath> to_devices;  ///< from each device
};

struct Machine {
  std::string name;
  std::string device;     ///< kind
  NvlinkMatrix nvlinks;   ///< through a switch: all links of a device, to every other
  bool switched = false;  ///< all devices reach all others with all their links
  std::vector<std::vector<PciPath>> paths;  ///< between devices, where they have no NVLink
  std::optional<Bandwidth> pcie;            ///< of a device, one direction, where the tool says it
  std::vector<NetworkPort> ports;
  std::vector<std::string> numa_nodes;  ///< of each device, as printed; may be empty
};

/// The box: a level of one box with its ports, if it has any, and the level inside. Bandwidth of
/// NVLinks by generation and of paths as NCCL takes them (its graph/topo.h); rings by
/// `nvlink_rings`; pairs that differ from the rest become overrides.
Cluster cluster_of(const Machine& machine);

/// In sentences: NVLinks, rings, paths, each device's nearest port.
std::vector<std::string> notes_on(const Machine& machine);

}  // namespace stagecraft
