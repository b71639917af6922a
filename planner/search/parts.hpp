// A search that is divided into parts, one after another, each with the incumbents of the parts
// before it. The bound of the whole is the lowest of all parts.

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
  /// Whether a stop was requested and a plan is known: then the remaining parts are skipped.
  bool is_stopped() const { return board_.best() && control_.stop.stop_requested(); }
  /// The control of the next part. Its cutoff is the incumbent less the requested gap.
  SearchControl next();
  void take(const SearchResult& part);
  /// Records that parts were skipped: the bound becomes zero.
  void leave_rest();

  /// Lower bound on the plans of this plan's family, which was not searched, given the bound of
  /// chains of several degrees.
  using BoundBeyond = std::function<Duration(const Plan& plan, Duration least_of_mixed)>;
  SearchResult finish(const Problem& problem, const BoundBeyond& bound_beyond);

 private:
  const SearchControl& control_;
  Leaderboard board_;
  std::size_t parts_ = 1, part_ = 0;
  std::string strategy_ = "exact";
  Searched searched_;
  bool may_be_verified_ = true;      ///< every part has a question that its bound answers
  std::optional<Candidate> beyond_;  ///< the best plan outside the searched families
};

}  // namespace stagecraft
