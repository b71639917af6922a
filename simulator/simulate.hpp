// The clock: a program and its costs give a timeline. Knows no models and no plans.

#pragma once

#include <optional>
#include <vector>

#include "simulator/values/program.hpp"
#include "simulator/values/timeline.hpp"

namespace stagecraft {

/// What one chunk's instructions take for its share of one microbatch.
struct ChunkCosts {
  Duration forward{0};
  Duration backward{0};
  Duration backward_input{0};
  Duration backward_weight{0};
  Duration recompute{0};
  Duration update{0};
  std::optional<Duration> fused = {};  ///< its F overlapped with a B; default: one after the other
  bool operator==(const ChunkCosts&) const = default;
};

/// A message arrives `latency + occupancy` after it started; the channel is busy for `occupancy`.
struct ChannelCosts {
  Duration latency{0};
  Duration occupancy{0};
  bool operator==(const ChannelCosts&) const = default;
};

/// Parallel to the program's tables.
struct Costs {
  std::vector<ChunkCosts> chunks;
  std::vector<ChannelCosts> channels;
  std::vector<Duration> groups;
  bool operator==(const Costs&) const = default;
};

/// Every chunk costs the same, every message has the same latency and occupies nothing.
Costs uniform(const Program& program, const ChunkCosts& chunk, Duration transfer = Duration{0});

struct SimulateOptions {
  int iterations = 1;
  /// An iteration starts when the one before has ended on every device. Without, every lane goes on
  /// at once; a device's last update is the last of its compute, so its next forwards follow it.
  bool barrier = true;
};

/// Compute is done in issue order, one thing at a time per device; transfers start when their data
/// is ready and their channel is free, and never occupy compute; a collective starts when all
/// members are ready and their collective lanes are free. Exact in integral nanoseconds: the same
/// input gives the same timeline. Throws Error (check) naming the devices that wait for each other
/// if the program cannot proceed, and Error (input) when a time exceeds what Duration holds.
Timeline simulate(const Program& program, const Costs& costs, const SimulateOptions& options = {});

}  // namespace stagecraft
