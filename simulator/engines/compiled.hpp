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
// a small table; the nodes stay. Values live in slots that are used again after their last reader,
// so that even long programs stay in the nearest cache. `steps` runs many tables side by side, so
// that each node is read once for all of them and its arithmetic is one of contiguous vectors.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "simulator/engines/repeats.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

/// What one entry of a compiled program's table of prices is in `Costs`.
struct Price {
  enum class Kind : std::uint8_t { nothing, compute, fused, occupancy, latency, group };
  Kind kind = Kind::nothing;
  Op op = Op::forward;  ///< of compute; of a fused pair, the backward's
  int index = 0;        ///< of the chunk, channel or group; of a fused pair, the forward's chunk
  int partner = 0;      ///< of a fused pair, the backward's chunk
  auto operator<=>(const Price&) const = default;
};

/// A compiled program as plain tables, for a clock elsewhere. With values numbered from 1 on in the
/// order of the nodes, and value 0 and price 0 zero:
///
///   value = max(value of first, value of second + price of delay) + price of cost
///   end   = value + price of delay                  start = end - price of cost - price of latency
struct CompiledTables {
  struct Node {
    std::uint32_t first = 0, second = 0;  ///< values of earlier nodes
    std::uint32_t delay = 0, cost = 0;    ///< prices
    bool operator==(const Node&) const = default;
  };
  /// Of a work; zero throughout for work that no device issues.
  struct Moment {
    std::uint32_t value = 0, delay = 0, cost = 0, latency = 0;
    bool operator==(const Moment&) const = default;
  };
  std::vector<Price> prices;
  std::vector<Node> nodes;
  std::vector<Moment> works;
};

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

  /// What step_time(simulate(program, costs)) gives, to the nanosecond, with what the program
  /// leaves out (errors as RepeatFinder's). Throws Error (input) unless the costs are parallel to
  /// the program's tables and not negative, and if all work together takes more than Duration
  /// holds.
  Duration step(const Costs& costs) const;

  /// The step of each table of costs. Errors as above.
  std::vector<Duration> steps(std::span<const Costs> tables) const;

  /// Writes what the times of a work are multiplied with in samples first, first + 1, …: factors
  /// of 0 to `most_factor`.
  using Factors = std::function<void(int work, int first, std::span<double> factors)>;
  static constexpr int most_factor = 100;

  /// The steps of samples 0, 1, …, each time rounded to whole nanoseconds. A message has the factor
  /// of its send, a collective that of its first work, a fused pair that of its forward. Errors as
  /// above; Error (usage) if the program leaves anything out.
  std::vector<Duration> samples(const Costs& costs, int count, const Factors& factors) const;

  /// The same instants as in the timeline; of what the program leaves out none. Errors as above.
  WorkTimes times(const Costs& costs) const;

  /// Throws Error (usage) if the program leaves anything out.
  CompiledTables tables() const;

  /// Instructions of the program, all lanes.
  std::size_t size() const { return works_.size(); }
  /// Nodes of the (max, +) program.
  std::size_t nodes() const { return nodes_.size(); }

 private:
  friend class Compiler;
  using Time = std::int64_t;  // nanoseconds

  /// A value, and a price on top; `work` is whose price.
  struct Instant {
    std::uint32_t value = 0;
    std::uint32_t delay = 0;
    int work = 0;
    auto operator<=>(const Instant&) const = default;
  };
  /// slots[target] = max(slots[first], slots[second] + prices[delay]) + prices[cost]; slot 0 and
  /// price 0 are always zero.
  struct Node {
    std::uint32_t target = 0;
    std::uint32_t first = 0;
    std::uint32_t second = 0;
    std::uint32_t delay = 0;
    std::uint32_t cost = 0;
  };
  /// Whose prices a node adds.
  struct Payers {
    int delay = 0;
    int cost = 0;
  };
  /// How a work's end and duration follow; the end's value is that of node value - 1.
  struct Span {
    Instant end;
    std::uint32_t cost = 0;
    std::uint32_t latency = 0;
  };
  /// Times side by side.
  static constexpr std::size_t batch = 16;

  static Time price_in(const Costs& costs, const Price& price);
  std::vector<Time> prices(const Costs& costs, int factor = 1) const;
  template <class Note>
  Time run(const std::vector<Time>& prices, const Note& note) const;
  template <class Payments>
  std::vector<Time> run_batch(Payments& payments) const;

  Duration step_of(const WorkTimes& times) const;

  std::optional<RepeatFinder> repeats_;
  std::size_t chunks_ = 0, channels_ = 0, groups_ = 0, slots_ = 0;
  std::vector<Price> prices_;
  std::vector<std::int64_t> uses_;  ///< of each price by nodes
  std::vector<Node> nodes_;
  std::vector<Payers> payers_;  ///< of each node
  std::vector<Instant> ends_;   ///< the step is the latest of these; values are slots
  std::vector<Span> works_;
};

}  // namespace stagecraft
