// How near to the best a plan is, in words: what was proved, of which plans, and what was not
// tried.

#pragma once

#include <string>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Whether the bound leaves out plans that may be faster: then it has to be said which it speaks
/// of.
bool has_scope(const SearchResult& search);

/// "within 1.0 % of the optimum (6 simulated, 766 discarded) among plans …". Of a front: whether
/// other plans may be better in both.
std::string certificate_sentence(const Problem& problem, const SearchResult& search, bool is_front);

/// What a gap is due to: the bound that is lowest, and what it leaves out. A line; empty without a
/// gap.
std::string looseness_sentence(const SearchResult& search);

}  // namespace stagecraft
