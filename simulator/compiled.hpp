// A program made ready to be timed again and again: with other costs, or with many costs at once.
//
// In a program the order of everything is fixed, so every time is a maximum of sums of costs, and
// the program a list of nodes in an order in which each needs only earlier ones (the longest-path
// problem of a machine without queues, linear in the (max, +) algebra):
//
//   value = max(value of first, value of second + delay) + cost
//
//   compute      the end of the device's compute before it, what it waits for   + its cost
//   send         the channel is free, its data is there                         + occupancy
//   message      no node of its own: who waits for it adds the latency to its send's
//   collective   all that its members wait for                                  + its cost
//
// Whatever has more than two operands takes helpers without cost. A change of costs is a change of
// a small table; the nodes stay. `steps` runs many such tables side by side, so that each node is
// read once for all of them and its arithmetic is one of contiguous vectors.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/simulate.hpp"

namespace stagecraft {

/// When each work of a program starts and ends; zero for work that no device issues.
struct WorkTimes {
  std::vector<Duration> start;
  std::vector<Duration> end;
  bool operator==(const WorkTimes&) const = default;
};

/// Keeps nothing of the program it was made from.
class CompiledProgram {
 public:
  /// Throws Error (check) as `simulate` does if the program cannot proceed.
  explicit CompiledProgram(const Program& program);

  /// What step_time(simulate(program, costs)) gives, to the nanosecond. Throws Error (input) unless
  /// the costs are parallel to the program's tables and not negative, and if all work together
  /// takes more than Duration holds.
  Duration step(const Costs& costs) const;

  /// The step of each table of costs. Errors as above.
  std::vector<Duration> steps(std::span<const Costs> tables) const;

  /// The same instants as in the timeline. Errors as above.
  WorkTimes times(const Costs& costs) const;

  /// Instructions of the program, all lanes.
  std::size_t size() const { return works_.size(); }
  /// Nodes of the (max, +) program.
  std::size_t nodes() const { return nodes_.size(); }

 private:
  friend class Compiler;
  using Time = std::int64_t;  // nanoseconds

  /// Indices of values and prices; value 0 and price 0 are zero.
  struct Node {
    std::uint32_t first = 0;
    std::uint32_t second = 0;
    std::uint32_t delay = 0;
    std::uint32_t cost = 0;
  };
  /// A value, and a price on top.
  struct Instant {
    std::uint32_t value = 0;
    std::uint32_t delay = 0;
    auto operator<=>(const Instant&) const = default;
  };
  /// What one entry of the table of prices is in `Costs`.
  struct Price {
    enum class Kind : std::uint8_t { nothing, compute, fused, occupancy, latency, group };
    Kind kind = Kind::nothing;
    Op op = Op::forward;  ///< of compute; of a fused pair, the backward's
    int index = 0;        ///< of the chunk, channel or group; of a fused pair, the forward's chunk
    int partner = 0;      ///< of a fused pair, the backward's chunk
    auto operator<=>(const Price&) const = default;
  };
  /// How a work's end and duration follow.
  struct Span {
    Instant end;
    std::uint32_t cost = 0;
    std::uint32_t latency = 0;
  };

  static Time price_in(const Costs& costs, const Price& price);
  std::vector<Time> prices(const Costs& costs) const;
  std::vector<Time> values(const std::vector<Time>& prices) const;

  std::size_t chunks_ = 0, channels_ = 0, groups_ = 0;
  std::vector<Price> prices_;
  std::vector<std::int64_t> uses_;  ///< of each price by nodes
  std::vector<Node> nodes_;         ///< node i gives value i + 1
  std::vector<Instant> ends_;       ///< the step is the latest of these
  std::vector<Span> works_;
};

}  // namespace stagecraft
