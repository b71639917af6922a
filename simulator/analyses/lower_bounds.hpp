// How fast a program could be at best, whatever order its lanes work in: to prune before
// simulating, and to say how much of a step is due to order.
//
// Of every work is known when what it needs can be there at the earliest (its head) and what must
// still follow (its tail), by the waits alone. A device that does one thing at a time needs, for
// any set J of its computations, at least
//
//   least head in J  +  all of J  +  least tail in J                           (Carlier 1982)
//
// and the greatest of these is the length of its preemptive schedule in which, of what is ready,
// the longest tail goes first (Jackson): an exact maximum over all 2^n sets in n log n. So a weight
// gradient, which nothing waits for, fills a drain as in a zero-bubble schedule: sets without it
// have the longer tails. A channel is a machine, too.
//
// Memory: with at most K microbatches in flight, each from the start of F to the end of its B for
// at least a round trip R, m of them take m R / K. This makes 1F1B pay 2c per microbatch.

#pragma once

#include "simulator/analyses/critical_path.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

/// None is above the step of the program; times as in its timeline.
struct LowerBounds {
  Duration load{0};    ///< compute of the busiest device
  Duration path{0};    ///< the longest chain of waits
  Duration device{0};  ///< head, load and tail of the worst device
  Duration link{0};    ///< the same of channels
  Duration window{0};  ///< round trips of the chunk that keeps too little in flight
  Duration best() const;
  bool operator==(const LowerBounds&) const = default;
};

/// Errors as CompiledProgram. Costs O(work log work + chunks x work).
LowerBounds lower_bounds(const Program& program, const Costs& costs);

/// The slowest cycle of works through one or more iterations: each of them waits for the one
/// before, and the first for the last.
struct CycleMean {
  Duration time{0};               ///< around the cycle; zero: nothing holds iterations up
  int iterations = 1;             ///< in which it goes around once
  std::vector<CriticalRun> runs;  ///< the cycle; times add up to `time`
};

/// Without a barrier iterations cannot follow each other faster than time / iterations in the long
/// run, and they do follow that fast. Errors as CompiledProgram. See cycle_mean.cpp.
CycleMean cycle_mean(const Program& program, const Costs& costs);

}  // namespace stagecraft
