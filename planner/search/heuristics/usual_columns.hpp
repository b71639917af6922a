// What people would have chosen for large clusters.

#pragma once

#include <optional>
#include <stop_token>
#include <vector>

#include "planner/space/space.hpp"

namespace stagecraft {

/// What people choose for large clusters, each as good as it gets: data parallelism, and even
/// splits of the layers, copied until all devices are used, with one to four samples per microbatch
/// and replica. Those that do not fit are left out, unless nothing of their name fits. Once a stop
/// is requested, those looked at by then, and at least one that fits if there is any. With `worth`,
/// which takes less time, none that does not fit or takes longer by the fast clock.
std::vector<Candidate> usual_columns(const Space& space, const std::stop_token& stop,
                                     std::optional<Duration> worth);

/// The first to show: the best of what people choose among plans that take next to no time to
/// simulate, as they have few instructions; where none of them fits, of those that have a few more.
std::optional<Candidate> first_columns(const Space& space);

}  // namespace stagecraft
