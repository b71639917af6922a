// Verifies the certificate of a plan: that no plan which its question allows takes less than the
// bound, that the plan is one of these, that its time and memory are as stated, and that its gap is
// the one between bound and step.
//
// The plan contains the question (`Question`). For every setting that it allows (schedule,
// microbatch, tensor-parallel degree, replica policy), the first of these methods that succeeds;
// for a plan whose stages have different degrees, also the third for all such plans:
//
//   work     the layers' own time, on the devices where each takes least, spread over all devices
//   listing  every plan that could be faster is listed and simulated (planner/analysis/listing.hpp)
//   search   the exact search is asked for anything below the bound, and finds nothing
//
// The first two share nothing with the search except the costs of plans: sums over layers, and the
// simulator. They suffice for small questions. The third repeats the search.

#pragma once

#include <string>

#include "planner/problem/problem.hpp"

namespace stagecraft {

struct Verification {
  Duration step{0};   ///< the plan's step, simulated again
  Duration bound{0};  ///< the plan's stated bound
  int settings = 0;   ///< settings that the question allows; each depth and number of columns
                      ///< counts as one
  int by_work = 0, by_listing = 0, by_search = 0;
  std::string scope;  ///< the plans that the bound covers, in words; empty: all
  std::string fault;  ///< the reason why the certificate is wrong; empty if it holds
  bool holds() const { return fault.empty(); }
};

/// Throws Error (input) if the plan contains no question, or if its strategy gave no bound.
Verification verify_bound(const Plan& plan, const Profile& profile, const Cluster& cluster);

}  // namespace stagecraft
