// Extrapolates long runs exactly from short ones, by detecting a period.
//
// Iterations without a barrier: an iteration depends on those before only through the times at
// which each lane becomes free. Its times are maxima of sums, so if all these times recur, shifted
// by t, everything after them recurs as well, shifted by t.
//
// Microbatches: between warm-up and drain, a schedule runs microbatch k + c like microbatch k. The
// times of k depend only on the microbatches in flight with it. So if all times are shifted by t
// from k to k + c, for more consecutive microbatches than are in flight, then c more microbatches
// take t longer.

#pragma once

#include <optional>
#include <vector>

#include "simulator/lowering/lower.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

/// Iterations of a program, without a barrier between them.
struct SteadyIterations {
  std::vector<Duration> ends;  ///< ends of the first iterations, up to the end of the first period
  int period = 1;              ///< iterations after which everything repeats
  Duration time{0};            ///< time of one period

  /// The exact step_time of this many iterations.
  Duration step(int iterations) const;
  bool operator==(const SteadyIterations&) const = default;
};

/// Nothing if no period is found within `most` iterations, for example if a device without feedback
/// runs ever farther ahead. Errors as `simulate`.
std::optional<SteadyIterations> steady_iterations(const Program& program, const Costs& costs,
                                                  int most = 100);

/// The time that the last of `iterations` iterations (at least two) adds to the end of the one
/// before. Errors as `simulate`; Error (usage) if no period is found and this many iterations would
/// take too long.
Duration last_iteration(const Program& program, const Costs& costs, int iterations, bool barrier);

/// Period of the steady state: `microbatches` more take `time` longer.
struct SteadyMicrobatches {
  int microbatches = 1;
  Duration time{0};
  bool operator==(const SteadyMicrobatches&) const = default;
};

/// The steady state of a schedule that updates weights during the run and so never drains; the
/// shape's number of microbatches is ignored. Nothing if no period is found in runs of at most
/// `most` microbatches. Errors as the generator, `lower` and `simulate`.
std::optional<SteadyMicrobatches> steady_microbatches(const ScheduleKind& kind,
                                                      const ScheduleShape& shape,
                                                      const Costs& costs,
                                                      const LowerOptions& options = {},
                                                      int most = 2'000);

/// The step of the schedule with this shape, extrapolated from runs with fewer microbatches if
/// these have a steady state, else from the full run. Exact for schedules whose order repeats
/// between warm-up and drain, which all rows of the table do except the automatic ones. The costs
/// must not depend on the number of microbatches. Errors as the generator, `lower` and `simulate`.
struct LongStep {
  Duration step{0};
  int microbatches_run = 0;  ///< microbatches of the longest run that was needed
};
LongStep long_step(const ScheduleKind& kind, const ScheduleShape& shape, const Costs& costs,
                   const LowerOptions& options = {});

}  // namespace stagecraft
