// A program compiled for repeated timing: with other costs, or with many costs at once.
//
// The order of a program is fixed, so every time is a maximum of sums of costs. The program becomes
// a list of nodes, each of which depends only on earlier ones (a longest-path problem, linear in
// the (max, +) algebra):
//
//   value = max(value of first, value of second + delay) + cost
//
//   compute      the end of the device's compute before it, what it waits for   + its cost
//   send         the channel is free, its data is there                         + occupancy
//   message      no node of its own: who waits for it adds the latency to its send's
//   collective   all that its members wait for                                  + its cost
//
// A node with more than two operands uses helper nodes without cost. Other costs only change a
// small table; the nodes stay. Values live in slots that are reused after their last reader, so
// that even long programs stay in the first-level cache. `steps` times many cost tables side by
// side, so that each node is read once for all of them and its arithmetic is vectorised.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "simulator/engines/repeats.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

/// The entry of `Costs` that an entry of a compiled program's table of prices stands for.
struct Price {
  enum class Kind : std::uint8_t { nothing, compute, fused, occupancy, latency, group };
  Kind kind = Kind::nothing;
  Op op = Op::forward;  ///< for compute; for a fused pair, the backward's operation
  int index = 0;        ///< of the chunk, channel or group; for a fused pair, the forward's chunk
  int partner = 0;      ///< for a fused pair, the backward's chunk
  auto operator<=>(const Price&) const = default;
};

/// A compiled program as plain tables, for a clock in another language. Values are numbered from 1
/// on in the order of the nodes; value 0 and price 0 are zero:
///
///   value = max(value of first, value of second + price of delay) + price of cost
///   end   = value + price of delay                  start = end - price of cost - price of latency
struct CompiledTables {
  struct Node {
    std::uint32_t first = 0, second = 0;  ///< numbers of earlier values
    std::uint32_t delay = 0, cost = 0;    ///< numbers of prices
    bool operator==(const Node&) const = default;
  };
  /// How a work's start and end follow from values and prices; all zero for work that no device
  /// issues.
  struct Moment {
    std::uint32_t value = 0, delay = 0, cost = 0, latency = 0;
    bool operator==(const Moment&) const = default;
  };
  std::vector<Price> prices;
  std::vector<Node> nodes;
  std::vector<Moment> works;
};

/// Start and end of each work of a program; zero for work that no device issues.
struct WorkTimes {
  std::vector<Duration> start;
  std::vector<Duration> end;
  bool operator==(const WorkTimes&) const = default;
};

/// Keeps no reference to the program that it was made from.
class CompiledProgram {
 public:
  /// Throws Error (check) as `simulate` does if the program deadlocks.
  explicit CompiledProgram(const Program& program);

  /// The step, equal to step_time(simulate(program, costs)) to the nanosecond, including the
  /// repetition that the program leaves out (errors as RepeatFinder's). Throws Error (input) unless
  /// the costs match the program's tables in size and are not negative, and if the sum of all work
  /// exceeds the range of Duration.
  Duration step(const Costs& costs) const;

  /// The step under each table of costs. Errors as above.
  std::vector<Duration> steps(std::span<const Costs> tables) const;

  /// Writes the factors of a work's times in samples first, first + 1, …, between 0 and
  /// `most_factor`.
  using Factors = std::function<void(int work, int first, std::span<double> factors)>;
  static constexpr int most_factor = 100;

  /// The steps of samples 0, 1, …, each time rounded to whole nanoseconds. A message has the factor
  /// of its send, a collective that of its first work, a fused pair that of its forward. Errors as
  /// above; Error (usage) if the program leaves anything out.
  std::vector<Duration> samples(const Costs& costs, int count, const Factors& factors) const;

  /// Start and end of each work, as in the timeline, without the repetition that the program leaves
  /// out. Errors as above.
  WorkTimes times(const Costs& costs) const;

  /// Throws Error (usage) if the program leaves anything out.
  CompiledTables tables() const;

  /// Number of instructions of the program, over all lanes.
  std::size_t size() const { return works_.size(); }
  /// Number of nodes of the (max, +) program.
  std::size_t nodes() const { return nodes_.size(); }

 private:
  friend class Compiler;
  using Time = std::int64_t;  // nanoseconds

  /// A value plus a price; `work` is the work that pays the price.
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
  /// The works whose prices a node adds.
  struct Payers {
    int delay = 0;
    int cost = 0;
  };
  /// How a work's end and duration are computed; the end's value is that of node `value` - 1.
  struct Span {
    Instant end;
    std::uint32_t cost = 0;
    std::uint32_t latency = 0;
  };
  /// Number of cost tables that are timed side by side.
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
  std::vector<std::int64_t> uses_;  ///< per price: number of nodes that use it
  std::vector<Node> nodes_;
  std::vector<Payers> payers_;  ///< payers of each node
  std::vector<Instant> ends_;   ///< the step is the maximum of these; values are slots
  std::vector<Span> works_;
};

}  // namespace stagecraft
