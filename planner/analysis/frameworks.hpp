// Which frameworks can run a plan, and the best plans for the others: the price of restricting an
// answer of `plan` to a given framework.

#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "planner/interop/load_plan.hpp"
#include "planner/problem/problem.hpp"
#include "planner/space/target_question.hpp"

namespace stagecraft {

/// The reasons why the framework cannot run the plan, one sentence each, including those of its
/// exporter; empty if it can.
std::vector<std::string> reasons_against(const Target& target, const LoadedPlan& loaded);

/// The newest version of each framework that can run the plan, in the order of lists.
std::vector<const Target*> frameworks_of(const LoadedPlan& loaded);

/// The plan of an answer, as if it had been loaded from its file.
LoadedPlan as_loaded(const Problem& problem, const Plan& plan);

/// The best plan that a framework can run, found by a short search.
struct FrameworkAnswer {
  const Target* target = nullptr;
  std::optional<Candidate> best;  ///< the framework runs it
  std::string reason;             ///< the reason if there is none
};

/// The answers of all frameworks; for inference, of serving frameworks. The problem must have no
/// target; `said` marks the properties that the user set. `known` are plans found before, which
/// compete if a framework can run them.
std::vector<FrameworkAnswer> answers_of_frameworks(const Problem& problem, const SaidOfPlans& said,
                                                   const std::vector<Candidate>& known,
                                                   const std::stop_token& stop, int threads);

}  // namespace stagecraft
