// The simulator's clock: computes the timeline of a program with costs. It knows neither models nor
// plans.

#pragma once

#include <optional>
#include <vector>

#include "simulator/values/program.hpp"
#include "simulator/values/timeline.hpp"

namespace stagecraft {

/// Times of one chunk's instructions for its share of one microbatch.
struct ChunkCosts {
  Duration forward{0};
  Duration backward{0};
  Duration backward_input{0};
  Duration backward_weight{0};
  Duration recompute{0};
  Duration update{0};
  std::optional<Duration> fused = {};  ///< time of its F overlapped with a B; nothing: the sum of
                                       ///< both
  bool operator==(const ChunkCosts&) const = default;
};

/// A message arrives `latency + occupancy` after its start; the channel is busy for `occupancy`.
struct ChannelCosts {
  Duration latency{0};
  Duration occupancy{0};
  bool operator==(const ChannelCosts&) const = default;
};

/// Costs, indexed like the program's tables.
struct Costs {
  std::vector<ChunkCosts> chunks;
  std::vector<ChannelCosts> channels;
  std::vector<Duration> groups;
  bool operator==(const Costs&) const = default;
};

/// Uniform costs: all chunks are equal, and all messages have the same latency and no occupancy.
Costs uniform(const Program& program, const ChunkCosts& chunk, Duration transfer = Duration{0});

struct SimulateOptions {
  int iterations = 1;
  /// Whether an iteration starts only when the one before has ended on every device. Without a
  /// barrier, every lane continues at once; a device's next forwards still follow its last update,
  /// which is the last of its compute.
  bool barrier = true;
};

/// Compute runs in issue order, one instruction at a time per device. A transfer starts when its
/// data is ready and its channel is free, and does not occupy compute. A collective starts when all
/// members are ready and their collective lanes are free. Exact in whole nanoseconds: the same
/// input gives the same timeline. Throws Error (check), naming the devices that wait for each
/// other, if the program deadlocks; Error (input) if a time exceeds the range of Duration.
Timeline simulate(const Program& program, const Costs& costs, const SimulateOptions& options = {});

}  // namespace stagecraft
