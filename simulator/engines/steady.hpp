// Long runs at the price of short ones: what repeats is counted, not run.
//
// One iteration after the other, without a barrier. All that an iteration knows of those before is
// when each lane is free. Its times are maxima of sums, so if these moments come again, all shifted
// by t, everything that follows is what followed then, shifted by t.
//
// One microbatch after the other. Between warm-up and drain a schedule does the same for microbatch
// k + c as for k. What is done for k depends on no more than those in flight with it; so if all of
// it is shifted by t, for c and for more microbatches in a row than are in flight, then c more
// microbatches take t longer.

#pragma once

#include <optional>
#include <vector>

#include "simulator/lowering/lower.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

/// Iterations of a program, without a barrier between them.
struct SteadyIterations {
  std::vector<Duration> ends;  ///< of the first iterations, up to the end of the first period
  int period = 1;              ///< iterations after which everything repeats
  Duration time{0};            ///< of one period

  /// step_time of so many iterations, exactly.
  Duration step(int iterations) const;
  bool operator==(const SteadyIterations&) const = default;
};

/// Nothing if no period shows within `most` iterations, as when a device without feedback runs ever
/// farther ahead. Errors as `simulate`.
std::optional<SteadyIterations> steady_iterations(const Program& program, const Costs& costs,
                                                  int most = 100);

/// What the last of so many iterations, two at least, adds to the end of the one before. Errors as
/// `simulate`; Error (usage) where no period shows and so many are too long to work out.
Duration last_iteration(const Program& program, const Costs& costs, int iterations, bool barrier);

/// Period of the steady state: `microbatches` more take `time` longer.
struct SteadyMicrobatches {
  int microbatches = 1;
  Duration time{0};
  bool operator==(const SteadyMicrobatches&) const = default;
};

/// The steady state of a schedule that updates weights on the way, so that it never drains; what
/// the shape says of microbatches does not matter. Nothing if no period shows in runs of at most
/// `most` microbatches. Errors as generator, `lower` and `simulate`.
std::optional<SteadyMicrobatches> steady_microbatches(const ScheduleKind& kind,
                                                      const ScheduleShape& shape,
                                                      const Costs& costs,
                                                      const LowerOptions& options = {},
                                                      int most = 2'000);

/// The step of the schedule with this shape, from runs with fewer microbatches where they have a
/// steady state; else from the run itself. Exact for schedules whose order between warm-up and
/// drain repeats, as that of all rows of the table but the automatic ones does. The tables of costs
/// do not depend on the number of microbatches. Errors as generator, `lower` and `simulate`.
struct LongStep {
  Duration step{0};
  int microbatches_run = 0;  ///< in the longest run it took
};
LongStep long_step(const ScheduleKind& kind, const ScheduleShape& shape, const Costs& costs,
                   const LowerOptions& options = {});

}  // namespace stagecraft
