// What `plan` answers: the plans for people, as a file, and as JSON.

#pragma once

#include <atomic>
#include <stop_token>

#include "planner/analysis/risk.hpp"
#include "planner/problem/problem.hpp"
#include "planner/space/target_question.hpp"
#include "tools/console.hpp"

namespace stagecraft {

/// What is to be shown of a search.
struct PlanReport {
  bool is_front = false;     ///< the plans are a front of memory and throughput, not a ranking
  std::optional<Risk> risk;  ///< that the plans were chosen under
  SaidOfPlans said;          ///< of the question, beside its defaults
  std::string tokens;        ///< of a whole run that is to be told; empty: none
  /// Whether to tell what each framework would take: not where the question is for one.
  bool compares_frameworks = false;
  std::stop_token stop;  ///< ends what takes long beside the plans; a note says so
  const std::atomic<int>* stop_signal = nullptr;  ///< the signal that interrupted, or 0
};

/// Prints the plans, or writes the best where -o says, and gives the result for --json.
void report_plans(Console& console, const Problem& problem, const SearchResult& search,
                  const PlanReport& report);

/// The reason and what would make a plan fit. Returns the exit code.
int report_infeasible(Console& console, const Infeasible& infeasible);

}  // namespace stagecraft
