// Measurement of the links between ranks, over any transport: messages between two ranks and sums
// over several, within a box and between boxes.

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

/// Consecutive boxes with equally many ranks.
struct RankGrid {
  int boxes = 1;
  int ranks_of_box = 1;

  int ranks() const { return boxes * ranks_of_box; }
  bool operator==(const RankGrid&) const = default;
};

/// The grid for the hosts of the ranks. Throws Error (execution) if a host's ranks are not
/// consecutive, or if hosts have different numbers of ranks.
RankGrid grid_of(std::span<const std::string> hosts);

/// The measurements of rank 0 with the ranks that it reaches over one level.
struct MeasuredLevel {
  int count = 1;  ///< number of boxes, or of ranks in a box
  bool joins_boxes = false;
  std::vector<TimedCopy> messages;  ///< messages from the first rank of one part to that of the
                                    ///< next part
  FittedWay message;
  std::vector<TimedCopy> sums;  ///< all-reduces over one rank of every part
  FittedWay sum;
  /// Between boxes: number of ranks that can send side by side at full speed.
  int rails = 1;
};

/// The fitted link: point-to-point figures from messages; the collective bandwidth is the bus
/// bandwidth of a ring, 2(n-1)/n times the rate of the fitted all-reduces (nccl-tests,
/// PERFORMANCE.md).
Link link_of(const MeasuredLevel& level);

/// Measures the levels, outermost first. `make` makes the transports of this process's ranks; every
/// process must call it. Sizes are those of `measure_ways`. The result is only valid on the process
/// of rank 0. Throws Error (execution) if a rank fails.
std::vector<MeasuredLevel> measure_links(
    const RankGrid& grid,
    const std::function<std::vector<std::unique_ptr<Transport>>(const Wiring&)>& make,
    const std::function<std::unique_ptr<Backend>(int rank)>& make_backend,
    Bytes largest = 64 << 20);

/// A cluster of devices of this kind with the measured links.
Cluster measured_cluster(const DeviceKind& kind, std::span<const MeasuredLevel> levels);

}  // namespace stagecraft
