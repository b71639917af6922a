// Times of collectives over a group of devices: by ring, tree or in phases level by level,
// whichever is the fastest for the size, as NCCL chooses.
//
// Every algorithm costs latency for its longest chain of messages and bytes over the bandwidth of
// the levels it crosses (alpha-beta, Hockney 1994). n members, p parts at a level, N bytes:
//
//   ring          all-reduce 2(n-1) hops, 2(n-1)/n N; reduce-scatter and all-gather half of it;
//                 broadcast n-1 hops, N (Patarasuk and Yuan 2009). Levels work at once: the slowest
//                 counts. Members of one box have rings side by side, one on each rail.
//   tree          all-reduce 2 log2 p hops between boxes, a chain inside, 2 N at NCCL's 92 % of the
//                 bandwidth; broadcast half (double binary tree: Sanders, Speck and Traeff 2009).
//   hierarchical  reduce-scatter inside, the same over what is left outside, all-gather inside, one
//                 after the other: 2(p-1) hops, 2(p-1)/p of N over the parts inside, by level (Cho
//                 et al. 2019, BlueConnect). All-to-all in phases: p-1 hops, (p-1)/p N by level, so
//                 that messages leave a box on the rail of whom they are for (NCCL's PXN).
//   pairwise      all-to-all with each of the n-1 others (Thakur et al. 2005), levels at once.
//
// `Link::collective` is what one port reaches. A level that is oversubscribed carries that part of
// what all ports below it send at once: each port of phases and pairs has its part; r rings of a
// part with k members, each crossing once, have up to k/r times as much.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "profiles/cluster.hpp"

namespace stagecraft {

enum class Collective {
  all_reduce,      ///< with `bytes` on each member
  reduce_scatter,  ///< `bytes` is what each has before
  all_gather,      ///< `bytes` is what each has afterwards
  all_to_all,      ///< `bytes` is what each sends, its own part included
  broadcast,       ///< with `bytes` from one member
};
enum class CollectiveAlgorithm { ring, tree, hierarchical, pairwise };

struct CollectiveName {
  Collective collective;
  std::string_view name;
};
inline constexpr std::array collectives{
    CollectiveName{Collective::all_reduce, "all-reduce"},
    CollectiveName{Collective::reduce_scatter, "reduce-scatter"},
    CollectiveName{Collective::all_gather, "all-gather"},
    CollectiveName{Collective::all_to_all, "all-to-all"},
    CollectiveName{Collective::broadcast, "broadcast"},
};
struct AlgorithmName {
  CollectiveAlgorithm algorithm;
  std::string_view name;
};
inline constexpr std::array collective_algorithms{
    AlgorithmName{CollectiveAlgorithm::ring, "ring"},
    AlgorithmName{CollectiveAlgorithm::tree, "tree"},
    AlgorithmName{CollectiveAlgorithm::hierarchical, "hierarchical"},
    AlgorithmName{CollectiveAlgorithm::pairwise, "pairwise"},
};
std::string_view to_string(Collective collective);
std::string_view to_string(CollectiveAlgorithm algorithm);

/// A level at which a group's members part.
struct GroupLevel {
  int level = 0;        ///< of the cluster
  int parts = 1;        ///< with members, inside one part of the level above: the most
  int crossings = 1;    ///< of the links of a ring over all members
  int outside = 1;      ///< members inside one part of the level above, the most
  int inside = 1;       ///< members inside each part: the least
  bool is_box = false;  ///< the innermost level of the cluster
  Duration latency{0};
  Bandwidth rings = Bandwidth::unlimited();  ///< all rings side by side
  Bandwidth port = Bandwidth::unlimited();   ///< one member's share when all send at once
  bool operator==(const GroupLevel&) const = default;
};

/// Where the members of a collective are.
struct DeviceGroup {
  int members = 1;
  bool even = true;  ///< all parts of a level have equally many members
  int depth = 0;
  std::array<GroupLevel, most_levels> levels;  ///< the first `depth`, outermost first
  bool operator==(const DeviceGroup&) const = default;
};

/// The group of these devices, in any order; each counts once.
DeviceGroup device_group(const Cluster& cluster, std::vector<int> devices);
/// A group of `in_box` devices in each of `boxes` boxes, with these links and ports ("rails") per
/// box.
DeviceGroup boxes_group(int boxes, int in_box, const Link& inside, const Link& between, int rails);

/// Hops and bytes of an algorithm, level by level: what both clocks below sum up.
struct CollectiveTerms {
  struct Term {
    int hops = 0;
    std::int64_t share = 0, of = 1;  ///< share/of of the bytes
    bool on_rings = false;           ///< over `rings`, else over `port`
  };
  std::array<Term, most_levels> levels;
  bool at_once = false;  ///< the slowest level counts, else all of them
};
/// Nothing where the algorithm does not serve the collective or the group.
std::optional<CollectiveTerms> collective_terms(Collective collective,
                                                CollectiveAlgorithm algorithm,
                                                const DeviceGroup& group);

/// With one algorithm; nothing where it does not apply.
std::optional<Duration> collective_time(Collective collective, CollectiveAlgorithm algorithm,
                                        const DeviceGroup& group, Bytes bytes);

/// The quickest algorithm for these bytes, and its time; zero for one member.
struct CollectiveChoice {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  Duration time{0};
  bool operator==(const CollectiveChoice&) const = default;
};
CollectiveChoice choose_collective(Collective collective, const DeviceGroup& group, Bytes bytes);
Duration collective_time(Collective collective, const DeviceGroup& group, Bytes bytes);

/// No all-reduce over these devices, and possibly others, takes less.
Duration least_all_reduce_time(const Cluster& cluster, const std::vector<int>& devices,
                               Bytes bytes);

}  // namespace stagecraft
