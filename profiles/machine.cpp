#include "profiles/machine.hpp"

#include <algorithm>
#include <array>
#include <climits>
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

/// Between sockets, whatever PCIe could (NCCL: SKL_QPI_BW).
constexpr double between_sockets = 10;
/// Of PCIe and of ports: what rings reach of the rate of single messages, as of the built-in kinds.
constexpr double ring_part = 10.0 / 12;

Bandwidth gigabytes(double rate) {
  return {std::llround(rate * 1e9)};
}

int count_of(const Machine& machine) {
  return static_cast<int>(machine.nvlinks.size());
}

/// With what is known of its kind of device.
struct KnownMachine {
  const Machine& machine;
  KnownDevice device;

  int count() const { return count_of(machine); }
  int links(int a, int b) const { return machine.nvlinks[index(a)][index(b)]; }
  /// GB/s
  double pcie() const {
    if (machine.pcie) return static_cast<double>(machine.pcie->bytes_per_second) / 1e9;
    constexpr double fourth_generation = 24;
    return device.fabric.pcie > 0 ? device.fabric.pcie : fourth_generation;
  }
};

/// Without the latency.
Link path_link(const KnownMachine& box, PciPath path) {
  double rate = box.pcie();
  if (path == PciPath::sys) rate = std::min(rate, between_sockets);
  return {.point_to_point = gigabytes(rate), .collective = gigabytes(rate * ring_part)};
}

bool has_links(const Machine& machine) {
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

/// Links from each device to others, as the tool tells them.
int links_told(const KnownMachine& box, int device) {
  const auto& row = box.machine.nvlinks[index(device)];
  return std::accumulate(row.begin(), row.end(), 0);
}

/// Of one device: all of them lead to switches.
int own_links(const KnownMachine& box, int device) {
  return std::ranges::max(box.machine.nvlinks[index(device)]);
}

/// If a device seems to have more links than there are, it reaches all others with the same ones.
bool is_switched(const KnownMachine& box) {
  if (box.machine.switched) return true;
  if (box.device.fabric.links == 0) return false;
  for (int device = 0; device < box.count(); ++device)
    if (links_told(box, device) > box.device.fabric.links) return true;
  return false;
}

/// The fewest links between two devices: 0 where some have none.
int fewest_links(const KnownMachine& box) {
  int fewest = box.links(0, 1);
  for (int a = 0; a < box.count(); ++a) {
    for (int b = 0; b < box.count(); ++b)
      if (a != b) fewest = std::min(fewest, box.links(a, b));
  }
  return fewest;
}

/// What a ring over all devices reaches in links; nothing if there is none.
double bus_links(const KnownMachine& box) {
  if (box.count() < 2 || !has_links(box.machine)) return 0;
  if (is_switched(box)) return fewest_links(box);
  return box.count() <= 8 ? nvlink_bus_links(box.machine.nvlinks, all_devices(box.machine)) : 0;
}

Link pair_link(const KnownMachine& box, int a, int b) {
  const int links = box.links(a, b);
  if (links == 0) return path_link(box, box.machine.paths[index(a)][index(b)]);
  const DeviceFabric& fabric = box.device.fabric;
  if (fabric.links == 0) return box.device.links.inside;
  return {.point_to_point = gigabytes(links * fabric.link),
          .collective = gigabytes(links * fabric.usable_link)};
}

/// The slowest pair's, with the rate of rings over all devices.
Link inside_link(const KnownMachine& box) {
  if (box.count() < 2 || box.machine.links_unknown) return box.device.links.inside;
  Link link;
  for (int a = 0; a < box.count(); ++a) {
    for (int b = 0; b < box.count(); ++b) {
      if (a != b) link = slower(link, pair_link(box, a, b));
    }
  }
  const double links = bus_links(box);
  if (links > 0 && box.device.fabric.links > 0)
    link.collective = gigabytes(links * box.device.fabric.usable_link);
  link.latency = box.device.links.inside.latency;
  return link;
}

/// Where links make the rings, they are the same whatever single pairs have.
void add_overrides(const KnownMachine& box, Cluster& cluster) {
  if (box.machine.links_unknown) return;
  const Link& usual = cluster.levels.back().link;
  const bool on_links = bus_links(box) > 0;
  for (int a = 0; a < box.count(); ++a) {
    for (int b = 0; b < box.count(); ++b) {
      if (a == b) continue;
      Link link = pair_link(box, a, b);
      link.latency = usual.latency;
      if (on_links) link.collective = usual.collective;
      if (!(link == usual)) cluster.overrides.push_back({.from = a, .to = b, .link = link});
    }
  }
}

Level network(const KnownMachine& box) {
  Level level{.count = 1, .link = box.device.links.between};
  const std::vector<int> rails = rail_ports(box.machine);
  std::optional<Bandwidth> slowest;
  for (const int port : rails) {
    const auto& speed = box.machine.ports[index(port)].speed;
    if (speed) slowest = std::min(slowest.value_or(Bandwidth::unlimited()), *speed);
  }
  if (slowest) level.link.point_to_point = level.link.collective = *slowest;
  level.rails = static_cast<int>(rails.size());
  return level;
}

/// A kind of another device than the machine's would make links that are not there.
void check_links(const KnownMachine& box) {
  const DeviceFabric& fabric = box.device.fabric;
  const bool own_kind = fabric.links == 0 && fabric.pcie == 0;
  for (int a = 0; a < box.count() && !own_kind; ++a) {
    if (own_links(box, a) <= fabric.links) continue;
    throw Error(ErrorKind::input,
                concat("device ", a, " has ", own_links(box, a), " links to another, but ",
                       box.device.kind.name, " has ",
                       fabric.links == 0 ? "none" : std::to_string(fabric.links)),
                SourcePlace{box.machine.name, 0, 0},
                {"--device says which kind it is: a100-80gb, h100, …"});
  }
}

std::string paths_note(const KnownMachine& box) {
  std::map<std::string, int> pairs;
  for (int a = 0; a < box.count(); ++a) {
    for (int b = a + 1; b < box.count(); ++b)
      ++pairs[std::string(to_string(box.machine.paths[index(a)][index(b)]))];
  }
  std::string text = concat(box.device.fabric.links > 0 ? concat("no ", box.device.fabric.name)
                                                        : std::string("no direct links"),
                            "; pairs of devices on PCIe:");
  for (const auto& [path, count] : pairs) text += concat(" ", count, " ", path);
  return text;
}

/// "6 between 0 and 1, which limit collectives": pairs with fewer links than both devices have to
/// others. Empty where there are none.
std::string weak_pairs(const KnownMachine& box) {
  constexpr int most_named = 4;
  std::string text;
  int found = 0;
  bool apart = false;
  for (int a = 0; a < box.count(); ++a) {
    for (int b = a + 1; b < box.count(); ++b) {
      const int links = box.links(a, b);
      if (links >= std::min(own_links(box, a), own_links(box, b))) continue;
      apart = apart || links == 0;
      if (++found > most_named) continue;
      text += concat(found > 1 ? ", " : "", links, " between ", a, " and ", b);
    }
  }
  if (found == 0) return "";
  if (found > most_named) text += concat(" and fewer between ", found - most_named, " other pairs");
  return text + (apart ? ": rings go over PCIe" : ", which limit collectives");
}

std::string switch_note(const KnownMachine& box) {
  int most = 0, least = INT_MAX, weakest = 0;
  for (int device = 0; device < box.count(); ++device) {
    const int links = own_links(box, device);
    most = std::max(most, links);
    if (links >= least) continue;
    least = links;
    weakest = device;
  }
  if (least == 0)
    return concat("NVSwitch, but device ", weakest, " has no link: rings go over PCIe");
  const std::string pairs = weak_pairs(box);
  if (!pairs.empty())
    return concat("NVSwitch: ", most, " links from a device to every other, but ", pairs);
  if (least == most) return concat("NVSwitch: ", most, " links from each device to every other");
  return concat("NVSwitch: up to ", most, " links from a device to every other, but ", least,
                " from device ", weakest, ", which limit collectives");
}

std::string links_note(const KnownMachine& box) {
  if (box.count() < 2) return "one device: there are no pairs";
  if (box.machine.links_unknown) {
    return concat("links between devices are not told: taken as ", box.device.kind.name,
                  " usually has them");
  }
  if (!has_links(box.machine)) return paths_note(box);
  if (is_switched(box)) return switch_note(box);
  const std::string name(box.device.fabric.links > 0 ? box.device.fabric.name : "direct link");
  if (bus_links(box) == 0) return concat(name, "s join some devices only: rings go over PCIe");
  const int rings = nvlink_rings(box.machine.nvlinks, all_devices(box.machine));
  if (rings > 0) {
    return concat(name, "s between pairs: ", rings, rings == 1 ? " ring" : " rings",
                  " over all devices");
  }
  return concat(name, "s between pairs: no ring over all devices, a chain");
}

PciPath nearest_path(const NetworkPort& port) {
  return port.to_devices.empty() ? PciPath::sys : std::ranges::min(port.to_devices);
}

std::string rails_note(const Machine& machine, const std::vector<int>& rails) {
  std::string others;
  for (int port = 0; port < static_cast<int>(machine.ports.size()); ++port) {
    if (std::ranges::find(rails, port) != rails.end()) continue;
    others += (others.empty() ? "" : ", ") + machine.ports[index(port)].name;
  }
  if (nearest_path(machine.ports[index(rails.front())]) > PciPath::pxb) {
    return concat("no port is PIX or PXB to a device: of those that are ",
                  to_string(nearest_path(machine.ports[index(rails.front())])), ", ", rails.size(),
                  rails.size() == 1 ? " counts as a rail" : " count as rails");
  }
  if (others.empty()) return "";
  return concat("no rails: ", others, ", which no device is PIX or PXB to (storage, management)");
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

std::vector<int> rail_ports(const Machine& machine) {
  std::vector<int> rails;
  PciPath best = PciPath::sys;
  for (const NetworkPort& port : machine.ports) best = std::min(best, nearest_path(port));
  const bool near = best <= PciPath::pxb;
  const std::size_t most = near ? machine.ports.size() : machine.nvlinks.size();
  for (int port = 0; port < static_cast<int>(machine.ports.size()); ++port) {
    const PciPath path = nearest_path(machine.ports[index(port)]);
    const bool counts = near ? path <= PciPath::pxb : path == best;
    if (counts && rails.size() < most) rails.push_back(port);
  }
  return rails;
}

Cluster cluster_of(const Machine& machine) {
  const KnownMachine box{machine, device_named(machine.device)};
  check_links(box);
  Cluster cluster;
  cluster.name = machine.name;
  cluster.kinds = {box.device.kind};
  cluster.devices.assign(index(box.count()), 0);
  if (!machine.ports.empty()) cluster.levels.push_back(network(box));
  cluster.levels.push_back({.count = box.count(), .link = inside_link(box)});
  add_overrides(box, cluster);
  validate(cluster);
  return cluster;
}

std::vector<std::string> notes_on(const Machine& machine) {
  const KnownMachine box{machine, device_named(machine.device)};
  std::vector<std::string> notes = machine.notes;
  notes.push_back(links_note(box));
  if (machine.ports.empty()) return notes;
  std::string near = "nearest ports:";
  for (int device = 0; device < box.count(); ++device) {
    const auto path = [&](const NetworkPort& port) { return port.to_devices[index(device)]; };
    const auto best = std::ranges::min_element(machine.ports, {}, path);
    near += concat(device == 0 ? " " : ", ", device, " ", best->name, " (", to_string(path(*best)),
                   ")");
  }
  notes.push_back(near);
  const std::vector<int> rails = rail_ports(machine);
  const std::string rail_note = rails_note(machine, rails);
  if (!rail_note.empty()) notes.push_back(rail_note);
  const bool unknown = std::ranges::any_of(
      rails, [&](int port) { return !machine.ports[index(port)].speed.has_value(); });
  if (unknown) {
    notes.push_back(concat(
        "the ports' speed is not told: ", format_bandwidth(box.device.links.between.point_to_point),
        " each, as ", box.device.kind.name, " usually has"));
  }
  return notes;
}

}  // namespace stagecraft
