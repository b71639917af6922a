// Measuring what connects ranks, over any transport: messages between two of them and sums over
// several, within a box and between boxes.

#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/measurement/measure_ways.hpp"
#include "executor/transports/transport.hpp"
#include "profiles/cluster.hpp"

namespace stagecraft {

/// Boxes of equally many ranks, one behind the other.
struct RankGrid {
  int boxes = 1;
  int ranks_of_box = 1;

  int ranks() const { return boxes * ranks_of_box; }
  bool operator==(const RankGrid&) const = default;
};

/// Of the host that each rank is on. Throws Error (execution) where a host's ranks are not
/// neighbours, or not as many as the others'.
RankGrid grid_of(std::span<const std::string> hosts);

/// What rank 0 and those that it reaches over one level have measured.
struct MeasuredLevel {
  int count = 1;  ///< boxes, or ranks of a box
  bool joins_boxes = false;
  std::vector<TimedCopy> messages;  ///< from one part's first rank to the next part's
  FittedWay message;
  std::vector<TimedCopy> sums;  ///< all-reduces over one rank of every part
  FittedWay sum;
  /// Of boxes: as many of their ranks do that side by side as fast as one alone.
  int rails = 1;
};

/// Point to point as messages take it; the collective bandwidth is the bus bandwidth of a ring,
/// 2(n-1)/n of what the fitted all-reduces carry (nccl-tests, PERFORMANCE.md).
Link link_of(const MeasuredLevel& level);

/// The ranks' connections, made by `make` for those of this process; every process of several calls
/// it. Sizes as `measure_ways` has them. Levels are outermost first; they mean something where rank
/// 0 is. Throws Error (execution) with a rank that failed.
std::vector<MeasuredLevel> measure_links(
    const RankGrid& grid,
    const std::function<std::vector<std::unique_ptr<Transport>>(const Wiring&)>& make,
    const std::function<std::unique_ptr<Backend>(int rank)>& make_backend,
    Bytes largest = 64 << 20);

/// Devices of this kind, with the levels' links.
Cluster measured_cluster(const DeviceKind& kind, std::span<const MeasuredLevel> levels);

}  // namespace stagecraft
