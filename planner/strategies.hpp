// Ways to search: the table of all strategies. To add one of our own: write planner/search/NAME.cpp
// and NAME.hpp, and add a row here; another planner goes to planner/baselines/baselines.hpp.

#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "planner/baselines/baselines.hpp"
#include "planner/search/brute_force.hpp"
#include "planner/search/exact.hpp"
#include "planner/search/finer_search.hpp"

namespace stagecraft {

/// Throws Error (usage) if the problem has constraints that the strategy does not obey. Searches do
/// not call it: the plans of such a strategy still serve as warm starts.
void require_obeyed(const Strategy& strategy, const Problem& problem);

/// A name of the command line, taken apart.
struct StrategyChoice {
  const Strategy* strategy = nullptr;
  std::string argument;
};

/// Our own.
inline constexpr std::array own_strategies{
    Strategy{
        "exact", search_with_finer_stages,
        "dynamic programming on a lower bound, then simulation of every plan that could still win"},
    Strategy{"brute-force", search_brute_force,
             "simulates every plan; for small cases and as the other strategies' test", false,
             nullptr, wish::all, brute_force_front},
};

/// Our own, then other planners.
inline constexpr auto strategies = [] {
  std::array<Strategy, own_strategies.size() + baselines.size()> all{};
  std::ranges::copy(baselines, std::ranges::copy(own_strategies, all.begin()).out);
  return all;
}();

/// Throws Error (usage) with the known names and a suggestion, or if an argument is missing or not
/// wanted.
StrategyChoice choose_strategy(std::string_view name);
const Strategy& find_strategy(std::string_view name);

}  // namespace stagecraft
