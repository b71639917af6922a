// What a search minimises or maximises, and what its proof says about it.
//
// All four objectives follow from the time of an iteration, T: the step, or without a flush the
// steady time. For a batch of B samples, and devices that cost P an hour together,
//
//   step, latency   T              throughput   B / T              cost   P T / (B tokens)
//
// Among plans on the same devices all of them rank alike, so a lower bound on T is a lower bound on
// step, latency and cost, and an upper bound on throughput. For cost, the cheapest plan is sought
// for each number of devices, and the least bound over them holds.

#pragma once

#include "planner/costs/predict.hpp"
#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Throws Error (usage) for schedules that the search cannot rank by the problem's objective:
/// bpipe, a mixture of training and inference, steps of schedules that never drain, latency of
/// training; and for the objective cost if devices have no price.
void require_searchable(const Problem& problem);

/// Fills in `steady`, and the rates that follow from it, if the plan never drains and has a steady
/// state.
void add_steady_state(Prediction& prediction, const Plan& plan, const Compiled& compiled);

/// Whether the plan never drains, and the simulation found no steady state.
bool is_undecided(const Candidate& candidate);

/// Price of the plan's devices per hour, in total.
double price_per_hour(const Problem& problem, const Plan& plan);

/// The objective's value for the candidate, and its bound from `bound`, a lower bound on the step
/// of any plan.
Objective objective_of(const Problem& problem, const Candidate& candidate,
                       const SearchResult& search);

/// The maximum peak of the next plan on a Pareto front, after one with this peak.
Bytes smaller_peak(Bytes peak, double spacing);

/// Peak memory of the plan's fullest device.
Bytes largest_peak(const Candidate& candidate);

}  // namespace stagecraft
