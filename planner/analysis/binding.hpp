// What limits a plan.

#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// What limits the plan, and what one unit more would bring, the most first: faster compute where
/// it counts most, one GiB more per device, twice the bandwidth of a level of links, another
/// device, another microbatch or smaller ones, gradient sums. Only what would bring anything is
/// listed.
struct Binding {
  std::string what;   ///< "compute", "memory", "transfer", "devices", "microbatches", "replicas"
  std::string where;  ///< "stage 2", "device 0", "links inside nodes"
  std::string value;  ///< in words: the shadow price, and how it was found
  Duration saved{0};  ///< of an iteration of as many samples
};
/// Asks again with small searches, on at most so many threads (0: one for each core), unless the
/// plan is another planner's or `stop` is requested.
std::vector<Binding> binding(const Problem& problem, const Candidate& best,
                             const std::stop_token& stop = {}, int threads = 1);

}  // namespace stagecraft
