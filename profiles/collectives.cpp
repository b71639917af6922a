#include "profiles/collectives.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/wide.hpp"

namespace stagecraft {

namespace {

/// So many times the bandwidth; at least a byte per second.
Bandwidth scaled(Bandwidth bandwidth, double factor) {
  if (bandwidth.is_unlimited() || factor == 1) return bandwidth;
  const double rate = std::floor(static_cast<double>(bandwidth.bytes_per_second) * factor);
  if (rate >= 9e18) return Bandwidth::unlimited();
  return {std::max<std::int64_t>(1, static_cast<std::int64_t>(rate))};
}

int ceil_log2(int count) {
  int steps = 0;
  while ((std::int64_t{1} << steps) < count) ++steps;
  return steps;
}

Duration least_latency(const Cluster& cluster) {
  Duration least = cluster.levels.front().link.latency;
  for (const Level& level : cluster.levels) least = std::min(least, level.link.latency);
  return least;
}

/// Members in each part of one level that has any.
struct Parts {
  int count = 0;
  int least = 0, most = 0;
};
Parts parts_of(const std::vector<int>& sorted, int inside) {
  Parts parts;
  for (std::size_t first = 0; first < sorted.size();) {
    std::size_t end = first;
    while (end < sorted.size() && sorted[end] / inside == sorted[first] / inside) ++end;
    const int members = static_cast<int>(end - first);
    parts.least = parts.count == 0 ? members : std::min(parts.least, members);
    parts.most = std::max(parts.most, members);
    ++parts.count;
    first = end;
  }
  return parts;
}

/// The most parts inside `inside` that have members, of one part inside `outside`.
int most_parts(const std::vector<int>& sorted, int outside, int inside) {
  int most = 0, count = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const bool other = i == 0 || sorted[i] / outside != sorted[i - 1] / outside;
    const bool next = i == 0 || sorted[i] / inside != sorted[i - 1] / inside;
    count = other ? 1 : count + (next ? 1 : 0);
    most = std::max(most, count);
  }
  return most;
}

/// The level's link, or where links of the ring over these positions differ from it the slowest.
Link ring_link(const Cluster& cluster, const std::vector<int>& sorted, const Level& level,
               int outside, int inside) {
  if (cluster.overrides.empty()) return level.link;
  std::optional<Link> slowest;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const int from = sorted[i], to = sorted[(i + 1) % sorted.size()];
    if (from / outside != to / outside || from / inside == to / inside) continue;
    const Link link = link_of_positions(cluster, from, to);
    slowest = slowest ? slower(*slowest, link) : link;
  }
  return slowest.value_or(level.link);
}

/// Rings side by side: as many as members of a box have ports for, at every level.
int rings_of(const Cluster& cluster, int members_in_box, std::size_t outermost) {
  int rings = members_in_box;
  for (std::size_t level = outermost; level + 1 < cluster.levels.size(); ++level) {
    if (cluster.levels[level].count > 1) rings = std::min(rings, cluster.levels[level].rails);
  }
  return std::max(1, rings);
}

void set_rates(GroupLevel& level, Bandwidth port, int rings, int in_box, int rails,
               double oversubscription) {
  const double spare = std::max(1.0, static_cast<double>(level.inside) / rings);
  level.rings = scaled(port, rings * std::min(1.0, spare / oversubscription));
  level.port = scaled(port, std::min(1.0, static_cast<double>(rails) / in_box) / oversubscription);
}

using Term = CollectiveTerms::Term;

/// Half an all-reduce or a broadcast; `passes` of them.
CollectiveTerms ring_terms(const DeviceGroup& group, int passes, std::int64_t share,
                           std::int64_t of) {
  CollectiveTerms terms{.levels = {}, .at_once = true};
  for (int i = 0; i < group.depth; ++i) {
    // The longest way leaves out one link of the ring: the innermost are as short as any.
    const int left_out = i + 1 == group.depth ? 1 : 0;
    terms.levels[index(i)] = {.hops = passes * (group.levels[index(i)].crossings - left_out),
                              .share = share,
                              .of = of,
                              .on_rings = true};
  }
  return terms;
}

std::optional<CollectiveTerms> ring(Collective collective, const DeviceGroup& group) {
  const std::int64_t n = group.members;
  switch (collective) {
    case Collective::all_reduce: return ring_terms(group, 2, 2 * (n - 1), n);
    case Collective::reduce_scatter:
    case Collective::all_gather: return ring_terms(group, 1, n - 1, n);
    case Collective::broadcast: return ring_terms(group, 1, 1, 1);
    case Collective::all_to_all: return {};
  }
  return {};
}

std::optional<CollectiveTerms> tree(Collective collective, const DeviceGroup& group) {
  const bool sums = collective == Collective::all_reduce;
  if (!sums && collective != Collective::broadcast) return {};
  if (group.depth == 0 || group.levels[0].is_box) return {};
  const int passes = sums ? 2 : 1;
  CollectiveTerms terms{.levels = {}, .at_once = true};
  for (int i = 0; i < group.depth; ++i) {
    const GroupLevel& level = group.levels[index(i)];
    const int hops = level.is_box ? level.parts - 1 : ceil_log2(level.parts);
    // 25/23 for 92 % of the bandwidth.
    terms.levels[index(i)] = {
        .hops = passes * hops, .share = std::int64_t{25} * passes, .of = 23, .on_rings = true};
  }
  return terms;
}

std::optional<CollectiveTerms> hierarchical(Collective collective, const DeviceGroup& group) {
  if (group.depth < 2 || !group.even || collective == Collective::broadcast) return {};
  const int passes = collective == Collective::all_reduce ? 2 : 1;
  CollectiveTerms terms;
  std::int64_t divided = 1;  // by the levels inside
  for (int i = group.depth - 1; i >= 0; --i) {
    const std::int64_t parts = group.levels[index(i)].parts;
    terms.levels[index(i)] = {.hops = passes * static_cast<int>(parts - 1),
                              .share = passes * (parts - 1),
                              .of = parts * divided};
    if (collective != Collective::all_to_all) divided *= parts;
  }
  return terms;
}

std::optional<CollectiveTerms> pairwise(Collective collective, const DeviceGroup& group) {
  if (collective != Collective::all_to_all) return {};
  CollectiveTerms terms{.levels = {}, .at_once = true};
  for (int i = 0; i < group.depth; ++i) {
    const GroupLevel& level = group.levels[index(i)];
    const int others = level.outside - level.inside;
    terms.levels[index(i)] = {.hops = others, .share = others, .of = group.members};
  }
  return terms;
}

/// share/of of the bytes, rounded up.
Bytes share_of(const Term& term, Bytes bytes) {
  const auto of = static_cast<UnsignedWide>(term.of);
  const UnsignedWide all = static_cast<UnsignedWide>(bytes) * static_cast<UnsignedWide>(term.share);
  const UnsignedWide share = (all + of - 1) / of;
  if (share > static_cast<UnsignedWide>(INT64_MAX))
    fail("a collective over ", bytes, " bytes is too large");
  return static_cast<Bytes>(share);
}

Duration time_of(const CollectiveTerms& terms, const DeviceGroup& group, Bytes bytes) {
  Duration latency{0}, sending{0};
  for (int i = 0; i < group.depth; ++i) {
    const Term& term = terms.levels[index(i)];
    const GroupLevel& level = group.levels[index(i)];
    latency += term.hops * level.latency;
    const Duration here =
        transfer_time(share_of(term, bytes), term.on_rings ? level.rings : level.port);
    sending = terms.at_once ? std::max(sending, here) : sending + here;
  }
  return latency + sending;
}

}  // namespace

std::string_view to_string(Collective collective) {
  for (const CollectiveName& row : collectives) {
    if (row.collective == collective) return row.name;
  }
  return "";
}

std::string_view to_string(CollectiveAlgorithm algorithm) {
  for (const AlgorithmName& row : collective_algorithms) {
    if (row.algorithm == algorithm) return row.name;
  }
  return "";
}

DeviceGroup device_group(const Cluster& cluster, std::vector<int> devices) {
  devices = positions_of(cluster, std::move(devices));
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  DeviceGroup group{.members = std::max(1, static_cast<int>(devices.size()))};
  if (devices.size() < 2) return group;
  const int box = cluster.levels.back().count;
  const Parts boxes = parts_of(devices, box);
  int outside = device_count(cluster);
  Parts above{.count = 1, .least = group.members, .most = group.members};
  for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
    const Level& level = cluster.levels[l];
    const int inside = outside / level.count;
    const Parts parts = parts_of(devices, inside);
    group.even = group.even && parts.least == parts.most;
    if (parts.count > above.count) {
      GroupLevel here{.level = static_cast<int>(l),
                      .parts = most_parts(devices, outside, inside),
                      .crossings = group.depth == 0 ? parts.count : parts.count - above.count,
                      .outside = above.most,
                      .inside = parts.least,
                      .is_box = l + 1 == cluster.levels.size()};
      const Link link = ring_link(cluster, devices, level, outside, inside);
      here.latency = link.latency;
      if (here.is_box) {
        here.rings = here.port = link.collective;
      } else {
        set_rates(here, link.collective, rings_of(cluster, boxes.least, l), boxes.most, level.rails,
                  level.oversubscription);
      }
      group.levels[index(group.depth++)] = here;
    }
    above = parts;
    outside = inside;
  }
  return group;
}

DeviceGroup boxes_group(int boxes, int in_box, const Link& inside, const Link& between, int rails) {
  assert(boxes >= 1 && in_box >= 1 && rails >= 1);
  DeviceGroup group{.members = boxes * in_box};
  if (boxes > 1) {
    GroupLevel& level = group.levels[index(group.depth++)];
    level = {.parts = boxes,
             .crossings = boxes,
             .outside = boxes * in_box,
             .inside = in_box,
             .latency = between.latency};
    set_rates(level, between.collective, std::min(in_box, rails), in_box, rails, 1);
  }
  if (in_box > 1) {
    group.levels[index(group.depth++)] = {.parts = in_box,
                                          .crossings = boxes > 1 ? boxes * (in_box - 1) : in_box,
                                          .outside = in_box,
                                          .inside = 1,
                                          .is_box = true,
                                          .latency = inside.latency,
                                          .rings = inside.collective,
                                          .port = inside.collective};
  }
  return group;
}

std::optional<CollectiveTerms> collective_terms(Collective collective,
                                                CollectiveAlgorithm algorithm,
                                                const DeviceGroup& group) {
  switch (algorithm) {
    case CollectiveAlgorithm::ring: return ring(collective, group);
    case CollectiveAlgorithm::tree: return tree(collective, group);
    case CollectiveAlgorithm::hierarchical: return hierarchical(collective, group);
    case CollectiveAlgorithm::pairwise: return pairwise(collective, group);
  }
  return {};
}

std::optional<Duration> collective_time(Collective collective, CollectiveAlgorithm algorithm,
                                        const DeviceGroup& group, Bytes bytes) {
  assert(bytes >= 0);
  if (group.members <= 1) return Duration{0};
  const auto terms = collective_terms(collective, algorithm, group);
  if (!terms) return {};
  return time_of(*terms, group, bytes);
}

CollectiveChoice choose_collective(Collective collective, const DeviceGroup& group, Bytes bytes) {
  std::optional<CollectiveChoice> best;
  for (const AlgorithmName& row : collective_algorithms) {
    const auto time = collective_time(collective, row.algorithm, group, bytes);
    if (time && (!best || *time < best->time)) best = {row.algorithm, *time};
  }
  assert(best);
  return *best;
}

Duration collective_time(Collective collective, const DeviceGroup& group, Bytes bytes) {
  return choose_collective(collective, group, bytes).time;
}

Duration least_all_reduce_time(const Cluster& cluster, const std::vector<int>& devices,
                               Bytes bytes) {
  const DeviceGroup group = device_group(cluster, devices);
  // Faster links of their own may join further members.
  if (group.members <= 1 || !cluster.overrides.empty()) return Duration{0};
  Duration latency{0}, sending{0};
  for (int i = 0; i < group.depth; ++i) {
    const GroupLevel& known = group.levels[index(i)];
    const Level& level = cluster.levels[index(known.level)];
    const int hops = 2 * ceil_log2(known.parts);
    latency += hops * known.latency;
    // Two hops of a ring may go another way instead, by links that need not be slower.
    if (i + 1 == group.depth) latency -= 2 * (known.latency - least_latency(cluster));
    double ports = 1;
    if (!known.is_box) {
      ports = std::min(level.rails, cluster.levels.back().count);
      for (std::size_t l = index(known.level) + 1; l + 1 < cluster.levels.size(); ++l)
        ports *= cluster.levels[l].count;
    }
    const Term term{.share = std::int64_t{2} * (known.parts - 1), .of = known.parts};
    const Duration here =
        transfer_time(share_of(term, bytes), scaled(level.link.collective, ports));
    sending = std::max(sending, here);
  }
  return latency + sending;
}

}  // namespace stagecraft
