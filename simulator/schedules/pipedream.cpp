// PipeDream (Narayanan et al., SOSP 2019), the same with vertical sync, and PipeDream-2BW (ICML
// 2021): 1F1B over all microbatches, with updates on the way instead of a flush.
//
//   device 0   F0 F1 F2 .  .  .  .  B0 B0 U F3 B1 B1 U F4 …      p = 3, B takes twice as
//   device 1   .  F0 F1 .  .  B0 B0 U F2 B1 B1 U F3 B2 B2 …      long as F
//   device 2   .  .  F0 B0 B0 U F1 B1 B1 U F2 B2 B2 U …
//
// The orders are all the same; what differs is the version of the weights a microbatch k meets on
// device r, counted in updates from the start:
//
//                   updates after            k meets                  versions on device r
//   pipedream       every microbatch         max(0, k - (p - r) + 1)  p - r
//   vertical sync   every microbatch         max(0, k - p + 1)        p
//   2BW             each n microbatches      max(0, floor(k/n) - 1)   2
//
// With K(r) forwards before its first backward (the warm-up; p - r by default) device r meets
// max(0, k - K(r) + 1) under stashing, and keeps K(r) versions. Replicas that take turns need such
// windows: see simulator/values/turns.hpp.
//
// Nothing but the first and the last microbatches ever wait: f + b per microbatch.
//
// Of 2BW the paper asks for n >= p; n >= p - 1 is enough. When device 0 starts batch t with F of
// tn, its latest backward was that of tn - p. Version t - 1 takes the backwards of batches 0..t -
// 2, the last of which is that of (t - 1)n - 1 <= tn - p. With a warm-up K(0) stands for p.

#include <algorithm>

#include "profiles/error.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

namespace {

Schedule without_flush(std::string_view name, const ScheduleShape& shape, WeightPolicy weights,
                       int update_every) {
  require_counts(name, shape);
  refuse_virtual_stages(name, shape);
  require_warm_up(name, shape);
  refuse_in_flight(name, shape);

  Schedule schedule = one_f_one_b(
      {.devices = shape.devices, .microbatches = shape.microbatches, .warm_up = shape.warm_up});
  schedule.name = name;
  schedule.weights = weights;
  schedule.update_every = update_every;
  return schedule;
}

/// Microbatches of each update. Throws Error (usage) for what 2BW cannot do.
int require_group(const ScheduleShape& shape) {
  const int window = shape.warm_up.empty() ? shape.devices : shape.warm_up.front();
  const int least = std::max(window - 1, 1);
  const int group = shape.group.value_or(window);
  if (group < least) {
    fail_usage("pipedream-2bw: two versions of the weights last for groups of at least ",
               shape.warm_up.empty() ? "p" : "K(0)", " - 1 = ", least, " microbatches, not ", group,
               "; nearest legal group: ", least);
  }
  if (shape.microbatches % group == 0) return group;
  const int below = shape.microbatches / group * group;
  fail_usage("pipedream-2bw: the microbatches must fill whole groups of ", group, ", but ",
             shape.microbatches,
             " do not; nearest legal microbatches: ", below > 0 ? concat(below, " or ") : "",
             below + group);
}

}  // namespace

Schedule pipedream(const ScheduleShape& shape) {
  refuse_group("pipedream", shape);
  return without_flush("pipedream", shape, WeightPolicy::stashing, 1);
}

Schedule pipedream_vertical_sync(const ScheduleShape& shape) {
  refuse_group("pipedream-vertical-sync", shape);
  refuse_warm_up("pipedream-vertical-sync", shape);
  return without_flush("pipedream-vertical-sync", shape, WeightPolicy::vertical_sync, 1);
}

Schedule pipedream_2bw(const ScheduleShape& shape) {
  require_counts("pipedream-2bw", shape);
  require_warm_up("pipedream-2bw", shape);
  return without_flush("pipedream-2bw", shape, WeightPolicy::double_buffered, require_group(shape));
}

}  // namespace stagecraft
