#include "profiles/cluster.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <set>

#include "profiles/error.hpp"
#include "profiles/wide.hpp"

namespace stagecraft {

namespace {

/// Rings over many devices then still take less than the largest Duration.
constexpr Duration longest_latency = std::chrono::hours(1);

void check_link(const std::string& place, const Link& link) {
  if (link.latency < Duration{0}) fail(place, ": the latency is negative");
  if (link.latency > longest_latency) fail(place, ": the latency is above an hour");
  if (link.point_to_point.bytes_per_second <= 0 || link.collective.bytes_per_second <= 0) {
    fail(place, ": a bandwidth must be at least one byte per second");
  }
}

void check_kind(const std::string& cluster, const DeviceKind& kind) {
  const std::string place = concat("cluster ", cluster, ": device kind \"", kind.name, "\"");
  if (kind.name.empty()) fail("cluster ", cluster, ": a device kind has no name");
  if (!kind.memory_unlimited && kind.memory <= 0) fail(place, ": the memory must be positive");
  for (const double rate :
       {kind.flops_fp64, kind.flops_fp32, kind.flops_bf16, kind.flops_fp16, kind.flops_fp8}) {
    if (!std::isfinite(rate) || rate < 0) fail(place, ": a rate is negative or not finite");
    if (rate > 0 && rate < 1) {
      fail(place, ": a rate is less than one operation per second: ", rate);
    }
  }
  if (!kind.generic && kind.memory_bandwidth.bytes_per_second <= 0) {
    fail(place, ": the memory bandwidth must be positive");
  }
  if (kind.reserve < 0 || (!kind.memory_unlimited && kind.reserve >= kind.memory)) {
    fail(place, ": the reserve is ", format_bytes(kind.reserve), "; expected a part of its ",
         format_bytes(kind.memory));
  }
  constexpr double least_efficiency = 1e-9;
  if (!(kind.efficiency >= least_efficiency && kind.efficiency <= 1)) {
    fail(place, ": the efficiency must be at least ", least_efficiency, " and at most 1, found ",
         kind.efficiency);
  }
}

void check_kinds(const Cluster& cluster) {
  std::set<std::string_view> names;
  for (const DeviceKind& kind : cluster.kinds) {
    check_kind(cluster.name, kind);
    if (!names.insert(kind.name).second) {
      fail("cluster ", cluster.name, ": two device kinds are named \"", kind.name, "\"");
    }
  }
}

void check_fabric(const std::string& place, const Level& level) {
  if (level.rails < 1 || level.rails > most_devices) {
    fail(place, ": expected from 1 to ", most_devices, " rails, found ", level.rails);
  }
  if (!(level.oversubscription >= 1 && level.oversubscription <= 1000)) {
    fail(place, ": expected an oversubscription from 1 to 1000, found ", level.oversubscription);
  }
}

void check_levels(const Cluster& cluster) {
  if (cluster.levels.size() > most_levels) {
    fail("cluster ", cluster.name, ": expected at most ", most_levels, " levels, found ",
         cluster.levels.size());
  }
  std::int64_t product = 1;
  for (std::size_t level = 0; level < cluster.levels.size(); ++level) {
    const int count = cluster.levels[level].count;
    const std::string place = concat("cluster ", cluster.name, ": level ", level);
    if (count < 1) fail(place, ": expected a count of at least 1, found ", count);
    check_link(place, cluster.levels[level].link);
    check_fabric(place, cluster.levels[level]);
    product *= count;
    if (product > most_devices) {
      fail("cluster ", cluster.name, ": more than ", most_devices, " devices");
    }
  }
  if (product != device_count(cluster)) {
    fail("cluster ", cluster.name, ": the counts of its levels make ", product,
         " devices, but it lists ", device_count(cluster));
  }
}

void check_devices(const Cluster& cluster) {
  if (cluster.devices.empty()) fail("cluster ", cluster.name, " has no devices");
  const int kinds = static_cast<int>(cluster.kinds.size());
  for (std::size_t device = 0; device < cluster.devices.size(); ++device) {
    const int kind = cluster.devices[device];
    if (kind >= 0 && kind < kinds) continue;
    fail("cluster ", cluster.name, ": device ", device, " is of kind ", kind, ", but there are ",
         kinds, " kinds");
  }
}

void check_overrides(const Cluster& cluster) {
  const int devices = device_count(cluster);
  std::set<std::pair<int, int>> seen;
  for (const LinkOverride& entry : cluster.overrides) {
    const std::string place =
        concat("cluster ", cluster.name, ": link ", entry.from, " -> ", entry.to);
    const bool inside =
        entry.from >= 0 && entry.from < devices && entry.to >= 0 && entry.to < devices;
    if (!inside) fail(place, ": the cluster has the devices 0 to ", devices - 1);
    if (entry.from == entry.to) fail(place, ": a link joins two different devices");
    if (!seen.insert({entry.from, entry.to}).second) fail(place, ": given twice");
    check_link(place, entry.link);
  }
}

/// How much of `bytes` a ring of `members` moves over each link in `passes` rounds: rounded up.
Bytes ring_bytes(int passes, int members, Bytes bytes) {
  const auto all = static_cast<UnsignedWide>(bytes) *
                   static_cast<UnsignedWide>(passes * std::int64_t{members - 1});
  const UnsignedWide each =
      (all + static_cast<UnsignedWide>(members) - 1) / static_cast<UnsignedWide>(members);
  if (each > static_cast<UnsignedWide>(INT64_MAX)) {
    fail("a collective over ", bytes, " bytes is too large");
  }
  return static_cast<Bytes>(each);
}

Duration ring_time(const Link& link, int passes, int members, Bytes bytes) {
  assert(bytes >= 0);
  if (members <= 1) return Duration{0};
  return link.latency * passes * (members - 1) +
         transfer_time(ring_bytes(passes, members, bytes), link.collective);
}

}  // namespace

double peak_flops(const DeviceKind& kind, Precision precision) {
  switch (precision) {
    case Precision::float64: return kind.flops_fp64;
    case Precision::float32: return kind.flops_fp32;
    case Precision::bfloat16: return kind.flops_bf16;
    case Precision::float16: return kind.flops_fp16;
    case Precision::float8:
    case Precision::float8_with_attention: return kind.flops_fp8;
  }
  return 0;
}

void validate(const Cluster& cluster) {
  check_kinds(cluster);
  check_devices(cluster);
  check_levels(cluster);
  check_overrides(cluster);
}

int device_count(const Cluster& cluster) {
  return static_cast<int>(cluster.devices.size());
}

const DeviceKind& kind_of(const Cluster& cluster, int device) {
  const int kind = cluster.devices.at(static_cast<std::size_t>(device));
  return cluster.kinds.at(static_cast<std::size_t>(kind));
}

int position_of(const Cluster& cluster, int device) {
  return cluster.positions.empty() ? device : cluster.positions[static_cast<std::size_t>(device)];
}

std::vector<int> positions_of(const Cluster& cluster, std::vector<int> devices) {
  for (int& device : devices) device = position_of(cluster, device);
  return devices;
}

Link link_of_positions(const Cluster& cluster, int from, int to) {
  for (const LinkOverride& entry : cluster.overrides) {
    if (entry.from == from && entry.to == to) return entry.link;
  }
  // Devices are numbered like digits, outermost level first: the first digit that differs decides.
  int inside = device_count(cluster);
  for (const Level& level : cluster.levels) {
    inside /= level.count;
    if (from / inside != to / inside) return level.link;
  }
  return {};
}

Link link_between(const Cluster& cluster, int from, int to) {
  assert(from != to && from >= 0 && to >= 0);
  assert(from < device_count(cluster) && to < device_count(cluster));
  return link_of_positions(cluster, position_of(cluster, from), position_of(cluster, to));
}

Link slower(const Link& a, const Link& b) {
  return {.latency = std::max(a.latency, b.latency),
          .point_to_point = std::min(a.point_to_point, b.point_to_point),
          .collective = std::min(a.collective, b.collective)};
}

Link group_link(const Cluster& cluster, const std::vector<int>& devices) {
  // Between two devices of a sorted group lie only devices that share their common levels: the
  // neighbours along the ring meet every level that any pair of the group meets.
  std::vector<int> ring = positions_of(cluster, devices);
  std::sort(ring.begin(), ring.end());
  ring.erase(std::unique(ring.begin(), ring.end()), ring.end());
  Link slowest;
  if (ring.size() < 2) return slowest;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    slowest = slower(slowest, link_of_positions(cluster, ring[i], ring[(i + 1) % ring.size()]));
  }
  return slowest;
}

Duration message_time(const Link& link, Bytes bytes) {
  return link.latency + transfer_time(bytes, link.point_to_point);
}

Duration all_reduce_time(const Link& link, int members, Bytes bytes) {
  return ring_time(link, 2, members, bytes);
}

Duration reduce_scatter_time(const Link& link, int members, Bytes bytes) {
  return ring_time(link, 1, members, bytes);
}

}  // namespace stagecraft
