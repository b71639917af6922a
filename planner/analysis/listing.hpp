// Every plan of a setting that could be faster than a bound, one after the other: what verifies
// bounds of small questions, with code that the search does not share.
//
// Stages are listed from the first on. A list ends where the loads of the devices so far, behind
// their first forwards, or what is left, spread over what the devices have left, take as long as
// the bound. Plans that come to their end are simulated.

#pragma once

#include <optional>

#include "planner/space/space.hpp"

namespace stagecraft {

/// Device time that a layer needs for a microbatch, at the least, in nanoseconds: r replicas that
/// share it keep r devices for as long as the largest share takes; those that take turns keep one.
std::int64_t layer_work(const Space& space, const Setting& setting, int layer);

struct Listed {
  bool is_complete = false;         ///< else there were too many
  std::optional<Candidate> faster;  ///< a plan that fits and takes less than the bound
};

/// Of a setting without columns.
Listed list_plans(const Space& space, const Setting& setting, Duration bound);

}  // namespace stagecraft
