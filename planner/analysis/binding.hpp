// The binding constraints of a plan.

#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// A constraint that limits the plan, with its shadow price, the gain from one unit more: faster
/// compute on the most critical stage, one GiB more per device, twice the bandwidth of a level of
/// links, another device, another microbatch or smaller ones, gradient sums. Only constraints with
/// a gain are listed, the largest first.
struct Binding {
  std::string what;   ///< "compute", "memory", "transfer", "devices", "microbatches", "replicas"
  std::string where;  ///< "stage 2", "device 0", "links inside nodes"
  std::string value;  ///< the shadow price and how it was found, in words
  Duration saved{0};  ///< saved time of an iteration with the same number of samples
};
/// Finds shadow prices by small searches, on at most `threads` threads (0: one for each core),
/// unless the plan is another planner's or a stop is requested.
std::vector<Binding> binding(const Problem& problem, const Candidate& best,
                             const std::stop_token& stop = {}, int threads = 1);

}  // namespace stagecraft
