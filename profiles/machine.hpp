// One machine as tools of its vendor describe it: which way its devices reach each other, and which
// network ports are near which device. A cluster of one box comes of it.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiles/cluster.hpp"
#include "profiles/nvlink.hpp"

namespace stagecraft {

/// The PCIe path between two devices, as named by `nvidia-smi topo -m`; the nearest first.
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
  std::string device;    ///< kind, or the file of one's own (`device_named`)
  NvlinkMatrix nvlinks;  ///< or xGMI; through a switch: the links of the device that has fewer
  /// Devices reach others with all their links, through switches; so they do if they seem to have
  /// more links than there are.
  bool switched = false;
  bool links_unknown = false;  ///< the tool tells no NVLinks: those of the kind are taken
  std::vector<std::vector<PciPath>> paths;  ///< between devices, where they have no NVLink
  std::optional<Bandwidth> pcie;            ///< rate of a device in one direction, if the tool
                                            ///< gives it
  std::vector<NetworkPort> ports;
  std::vector<std::string> numa_nodes;  ///< name of each device as printed; may be empty
  std::vector<std::string> notes;       ///< assumptions about properties that the tool leaves open
};

/// Ports that collectives run over: those behind one PCIe switch or several with a device (PIX,
/// PXB). Others are for storage and management; where no port is so near, those as near as any
/// are, one for each device at most.
std::vector<int> rail_ports(const Machine& machine);

/// The box: a level of one box with its rails, if it has any, and the level inside. Bandwidth of
/// links and paths as `DeviceFabric` has them; rings by `nvlink_rings`, through switches at the
/// weakest device's links; pairs that differ from the rest become overrides. Throws Error (input)
/// where devices have more links than their kind.
Cluster cluster_of(const Machine& machine);

/// In sentences: links, rings, paths, rails, each device's nearest port.
std::vector<std::string> notes_on(const Machine& machine);

}  // namespace stagecraft
