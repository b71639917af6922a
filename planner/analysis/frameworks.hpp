// Which frameworks run a plan, and what the others would take: what the answer of `plan` costs on
// the stack that somebody has.

#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "planner/interop/load_plan.hpp"
#include "planner/problem/problem.hpp"
#include "planner/space/target_question.hpp"

namespace stagecraft {

/// Why the framework does not run the plan: a sentence for each thing that stands in the way; empty
/// if it does. What its exporter refuses is among them.
std::vector<std::string> reasons_against(const Target& target, const LoadedPlan& loaded);

/// The newest of each name that run the plan, as they are listed.
std::vector<const Target*> frameworks_of(const LoadedPlan& loaded);

/// The plan of an answer with the files it would name.
LoadedPlan as_loaded(const Problem& problem, const Plan& plan);

/// What a framework runs best, as far as a short search tells.
struct FrameworkAnswer {
  const Target* target = nullptr;
  std::optional<Candidate> best;  ///< the framework runs it
  std::string reason;             ///< where there is none
};

/// Of every framework; of those that only serve where nothing is trained. The problem is for none;
/// `said` is what of it somebody said. `known` are plans that were found before: where a framework
/// runs one of them, it is among its choices.
std::vector<FrameworkAnswer> answers_of_frameworks(const Problem& problem, const SaidOfPlans& said,
                                                   const std::vector<Candidate>& known,
                                                   const std::stop_token& stop, int threads);

}  // namespace stagecraft
