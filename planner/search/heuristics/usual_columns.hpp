// The usual choices of practitioners for large clusters.

#pragma once

#include <optional>
#include <stop_token>
#include <vector>

#include "planner/space/space.hpp"

namespace stagecraft {

/// The best plan of each usual choice: data parallelism, and even splits of the layers, replicated
/// until all devices are used, with one to four samples per microbatch and replica. A plan that
/// does not fit is only returned if no plan of its name fits. If a stop is requested, returns those
/// tried so far, and at least one that fits if there is any. With `worth`, leaves out plans that do
/// not fit or that the fast clock says take longer, which saves time.
std::vector<Candidate> usual_columns(const Space& space, const std::stop_token& stop,
                                     std::optional<Duration> worth);

/// A first plan to show at once: the best usual choice among plans of few instructions, which take
/// almost no time to simulate; if none of these fits, among plans of somewhat more.
std::optional<Candidate> first_columns(const Space& space);

}  // namespace stagecraft
