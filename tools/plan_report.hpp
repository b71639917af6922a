// What `plan` answers: the plans for people, as a file, and as JSON.

#pragma once

#include "planner/search.hpp"
#include "tools/console.hpp"

namespace stagecraft {

/// Prints the plans, or writes the best where -o says, and gives the result for --json.
void report_plans(Console& console, const Problem& problem, const SearchResult& search);

/// The reason and what would make a plan fit. Returns the exit code.
int report_infeasible(Console& console, const Infeasible& infeasible);

}  // namespace stagecraft
