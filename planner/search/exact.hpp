// The exact search: a plan, and the proof that no other one is faster (planner/search/exact.cpp).

#pragma once

#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

SearchResult search_exact(const Problem& problem, const SearchControl& control);

/// One question, all its degrees at once, beside these plans.
SearchResult search_at_once(const Problem& problem, const SearchControl& control,
                            std::vector<Candidate> starts);

/// The exact search of a problem without other degrees.
SearchResult search_given(const Problem& problem, const SearchControl& control);

}  // namespace stagecraft
