// The exact search: a plan, and the proof that no other one is faster (planner/search/exact.cpp).

#pragma once

#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

SearchResult search_exact(const Problem& problem, const SearchControl& control);

/// The exact search of one problem, over all its degrees at once, with these plans as warm starts.
SearchResult search_at_once(const Problem& problem, const SearchControl& control,
                            std::vector<Candidate> starts);

/// The exact search of a problem that `search_exact` need not split: with one way of sharding and
/// schedules that the fast clock times.
SearchResult search_given(const Problem& problem, const SearchControl& control);

}  // namespace stagecraft
