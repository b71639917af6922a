// A question that is searched in parts, one after another, each against the best plans of those
// before: its bound is the least of all parts.

#pragma once

#include <functional>

#include "planner/problem/incumbents.hpp"

namespace stagecraft {

class SearchParts {
 public:
  SearchParts(const SearchControl& control, std::size_t parts)
      : control_(control), board_(control.top), parts_(parts) {}

  /// The best plans of all parts so far.
  Leaderboard& board() { return board_; }
  /// Whether the search was stopped and has a plan: then the other parts are left.
  bool is_stopped() const { return board_.best() && control_.stop.stop_requested(); }
  /// The control of the next part: only plans matter that are faster than those known by more than
  /// the gap that is good enough.
  SearchControl next();
  void take(const SearchResult& part);
  /// Nothing is known of those that were left.
  void leave_rest();

  /// What no plan of this one's kind, beyond those searched, takes less than, given the bound of
  /// chains of several degrees.
  using BoundBeyond = std::function<Duration(const Plan& plan, Duration least_of_mixed)>;
  SearchResult finish(const Problem& problem, const BoundBeyond& bound_beyond);

 private:
  const SearchControl& control_;
  Leaderboard board_;
  std::size_t parts_ = 1, part_ = 0;
  std::string strategy_ = "exact";
  Searched searched_;
  bool may_be_verified_ = true;      ///< the bounds of all parts say what was asked
  std::optional<Candidate> beyond_;  ///< the best plan of another kind than those searched
};

}  // namespace stagecraft
