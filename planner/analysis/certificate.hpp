// Verifies the bound of a plan: that no plan its question allows takes less than the bound, that
// the plan is one of these, that it takes the time and the memory it says, and that its gap is
// that between its bound and its step.
//
// The question stands in the plan (`Question`). For every setting it allows (schedule, microbatch,
// tensor-parallel degree, how replicas share), the first of these that works; of a plan whose
// stages have degrees of their own, the third for all such plans, too:
//
//   work     the layers' own time, on the devices where each takes least, spread over all devices
//   listing  every plan that could be faster is listed and simulated (planner/analysis/listing.hpp)
//   search   the exact search is asked for anything below the bound, and finds nothing
//
// The first two share nothing with the search but what a plan costs: sums over layers and the
// simulator. They prove small questions alone. The third is the search's word again.

#pragma once

#include <string>

#include "planner/problem/problem.hpp"

namespace stagecraft {

struct Verification {
  Duration step{0};   ///< simulated again
  Duration bound{0};  ///< as the plan claims
  int settings = 0;   ///< that the question allows; of columns, each depth and number is one
  int by_work = 0, by_listing = 0, by_search = 0;
  std::string scope;  ///< the plans that the bound speaks of; empty: all
  std::string fault;  ///< why the bound does not hold; empty if it does
  bool holds() const { return fault.empty(); }
};

/// Throws Error (input) if the plan carries no question, or its strategy proved nothing.
Verification verify_bound(const Plan& plan, const Profile& profile, const Cluster& cluster);

}  // namespace stagecraft
