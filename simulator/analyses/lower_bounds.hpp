// Lower bounds on the step of a program over all orders of its lanes: for pruning before
// simulation, and to show how much of a step is due to order.
//
// The waits alone give, for every work, the earliest time at which its inputs can be ready (its
// head), and the time that must follow it (its tail). A device that runs one computation at a time
// needs, for any set J of its computations, at least
//
//   least head in J  +  all of J  +  least tail in J                           (Carlier 1982)
//
// and the maximum over all 2^n sets is the length of the preemptive schedule that always runs the
// ready computation with the longest tail (Jackson), which takes n log n time. A weight gradient,
// for which nothing waits, can fill a drain as in a zero-bubble schedule, since sets without it
// have longer tails. A channel is treated as a machine, too.
//
// Memory: with at most K microbatches in flight, each from the start of F to the end of its B for
// at least a round trip R, m of them take m R / K. This makes 1F1B pay 2c per microbatch.

#pragma once

#include "simulator/analyses/critical_path.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

/// Lower bounds on the program's step; times as in its timeline.
struct LowerBounds {
  Duration load{0};    ///< compute of the busiest device
  Duration path{0};    ///< the longest chain of waits
  Duration device{0};  ///< head, load and tail of the device with the largest sum
  Duration link{0};    ///< head, load and tail of the channel with the largest sum
  Duration window{0};  ///< round trips of the chunk with too few microbatches in flight
  Duration best() const;
  bool operator==(const LowerBounds&) const = default;
};

/// Errors as CompiledProgram. Costs O(work log work + chunks x work).
LowerBounds lower_bounds(const Program& program, const Costs& costs);

/// The slowest cycle of works through one or more iterations, in which each work waits for the one
/// before, and the first for the last.
struct CycleMean {
  Duration time{0};               ///< time around the cycle; zero: iterations do not wait for each
                                  ///< other
  int iterations = 1;             ///< iterations that the cycle spans
  std::vector<CriticalRun> runs;  ///< the cycle; times add up to `time`
};

/// The cycle of maximum mean. Without a barrier, the long-run time per iteration is exactly time /
/// iterations. Errors as CompiledProgram. See cycle_mean.cpp.
CycleMean cycle_mean(const Program& program, const Costs& costs);

}  // namespace stagecraft
