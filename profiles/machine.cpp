#include "profiles/machine.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "profiles/devices.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

struct PathName {
  PciPath path;
  std::string_view name;
};
constexpr std::array path_names{PathName{PciPath::pix, "PIX"}, PathName{PciPath::pxb, "PXB"},
                                PathName{PciPath::phb, "PHB"}, PathName{PciPath::node, "NODE"},
                                PathName{PciPath::sys, "SYS"}};

/// GB/s in one direction: of a link by the datasheet, what NCCL counts on (graph/topo.h), and of
/// sixteen lanes of PCIe.
struct Generation {
  std::string_view device;
  double link, usable_link, pcie;
};
constexpr std::array generations{
    Generation{"p100", 20, 18, 12},   Generation{"v100", 25, 20, 12},
    Generation{"a100", 25, 20, 24},   Generation{"h100", 25, 20.6, 48},
    Generation{"h200", 25, 20.6, 48}, Generation{"gb200", 50, 40.1, 48},
    Generation{"b200", 50, 40.1, 48}, Generation{"rtx4090", 25, 12, 24},
};
/// Between sockets, whatever PCIe could (NCCL: SKL_QPI_BW).
constexpr double between_sockets = 10;
/// Of PCIe and of ports: what rings reach of the rate of single messages, as of the built-in kinds.
constexpr double ring_part = 10.0 / 12;

const Generation& generation_of(const std::string& device) {
  for (const Generation& generation : generations) {
    if (device.starts_with(generation.device)) return generation;
  }
  fail("no NVLink or PCIe generation is known for device kind ", device);
}

Bandwidth gigabytes(double rate) {
  return {std::llround(rate * 1e9)};
}

int count_of(const Machine& machine) {
  return static_cast<int>(machine.nvlinks.size());
}

double pcie_of(const Machine& machine) {
  return machine.pcie ? static_cast<double>(machine.pcie->bytes_per_second) / 1e9
                      : generation_of(machine.device).pcie;
}

/// Without the latency.
Link path_link(const Machine& machine, PciPath path) {
  double rate = pcie_of(machine);
  if (path == PciPath::sys) rate = std::min(rate, between_sockets);
  return {.point_to_point = gigabytes(rate), .collective = gigabytes(rate * ring_part)};
}

bool has_nvlink(const Machine& machine) {
  for (const auto& row : machine.nvlinks) {
    if (std::ranges::any_of(row, [](int links) { return links > 0; })) return true;
  }
  return false;
}

std::vector<int> all_devices(const Machine& machine) {
  std::vector<int> devices(index(count_of(machine)));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

/// What a ring over all devices reaches in NVLinks; nothing if there is none.
double bus_links(const Machine& machine) {
  if (count_of(machine) < 2 || !has_nvlink(machine)) return 0;
  if (machine.switched) return machine.nvlinks[0][1];
  return count_of(machine) <= 8 ? nvlink_bus_links(machine.nvlinks, all_devices(machine)) : 0;
}

Link pair_link(const Machine& machine, int a, int b) {
  const int links = machine.nvlinks[index(a)][index(b)];
  const Generation& generation = generation_of(machine.device);
  if (links == 0) return path_link(machine, machine.paths[index(a)][index(b)]);
  return {.point_to_point = gigabytes(links * generation.link),
          .collective = gigabytes(links * generation.usable_link)};
}

/// The slowest pair's, with the rate of rings over all devices.
Link inside_link(const Machine& machine) {
  Link link;
  for (int a = 0; a < count_of(machine); ++a) {
    for (int b = 0; b < count_of(machine); ++b) {
      if (a != b) link = slower(link, pair_link(machine, a, b));
    }
  }
  const double links = bus_links(machine);
  if (links > 0) link.collective = gigabytes(links * generation_of(machine.device).usable_link);
  link.latency = builtin_links(machine.device).inside.latency;
  return link;
}

/// Where NVLinks make the rings, they are the same whatever single pairs have.
void add_overrides(const Machine& machine, Cluster& cluster) {
  const Link& usual = cluster.levels.back().link;
  const bool on_nvlink = bus_links(machine) > 0;
  for (int a = 0; a < count_of(machine); ++a) {
    for (int b = 0; b < count_of(machine); ++b) {
      if (a == b) continue;
      Link link = pair_link(machine, a, b);
      link.latency = usual.latency;
      if (on_nvlink) link.collective = usual.collective;
      if (!(link == usual)) cluster.overrides.push_back({.from = a, .to = b, .link = link});
    }
  }
}

Level network(const Machine& machine) {
  Level level{.count = 1, .link = builtin_links(machine.device).between};
  std::optional<Bandwidth> slowest;
  for (const NetworkPort& port : machine.ports) {
    if (port.speed) slowest = std::min(slowest.value_or(Bandwidth::unlimited()), *port.speed);
  }
  if (slowest) level.link.point_to_point = level.link.collective = *slowest;
  level.rails = static_cast<int>(machine.ports.size());
  return level;
}

std::string nvlink_note(const Machine& machine) {
  if (!has_nvlink(machine)) {
    std::map<std::string, int> pairs;
    for (int a = 0; a < count_of(machine); ++a) {
      for (int b = a + 1; b < count_of(machine); ++b)
        ++pairs[std::string(to_string(machine.paths[index(a)][index(b)]))];
    }
    std::string text = "no NVLink; pairs of devices on PCIe:";
    for (const auto& [path, count] : pairs) text += concat(" ", count, " ", path);
    return text;
  }
  if (machine.switched)
    return concat("NVSwitch: ", machine.nvlinks[0][1], " links from each device to every other");
  const double links = bus_links(machine);
  if (links == 0) return "NVLinks join some devices only: rings go over PCIe";
  const int rings = nvlink_rings(machine.nvlinks, all_devices(machine));
  if (rings > 0) return concat("NVLinks between pairs: ", rings, " rings over all devices");
  return "NVLinks between pairs: no ring over all devices, a chain";
}

}  // namespace

std::string_view to_string(PciPath path) {
  for (const PathName& row : path_names) {
    if (row.path == path) return row.name;
  }
  return "";
}

std::optional<PciPath> pci_path_named(std::string_view word) {
  for (const PathName& row : path_names) {
    if (row.name == word) return row.path;
  }
  return {};
}

Cluster cluster_of(const Machine& machine) {
  Cluster cluster;
  cluster.name = machine.name;
  cluster.kinds = {builtin_device_kind(machine.device)};
  cluster.devices.assign(index(count_of(machine)), 0);
  if (!machine.ports.empty()) cluster.levels.push_back(network(machine));
  cluster.levels.push_back({.count = count_of(machine), .link = inside_link(machine)});
  add_overrides(machine, cluster);
  validate(cluster);
  return cluster;
}

std::vector<std::string> notes_on(const Machine& machine) {
  std::vector<std::string> notes{nvlink_note(machine)};
  if (machine.ports.empty()) return notes;
  std::string near = "nearest ports:";
  for (int device = 0; device < count_of(machine); ++device) {
    const auto path = [&](const NetworkPort& port) { return port.to_devices[index(device)]; };
    const auto best = std::ranges::min_element(machine.ports, {}, path);
    near += concat(device == 0 ? " " : ", ", device, " ", best->name, " (", to_string(path(*best)),
                   ")");
  }
  notes.push_back(near);
  const bool unknown = std::ranges::any_of(
      machine.ports, [](const NetworkPort& port) { return !port.speed.has_value(); });
  if (unknown) {
    notes.push_back(concat("the ports' speed is not told: ",
                           format_bandwidth(builtin_links(machine.device).between.point_to_point),
                           " each, as ", machine.device, " usually has"));
  }
  return notes;
}

}  // namespace stagecraft
