// The best candidates of a search, and the figures that a search owes.

#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The best candidates so far; equal steps are told apart by fewer devices, then by the plan's
/// text. Of plans that differ only in the order of a stage's replicas, or of its layers, and take
/// the same, one stays.
class Leaderboard {
 public:
  explicit Leaderboard(int top) : top_(static_cast<std::size_t>(top < 1 ? 1 : top)) {}
  /// Takes the candidate if it fits in memory and is good enough.
  void add(const Candidate& candidate);
  /// Only a plan faster than this would change the board; nothing while there is room.
  std::optional<Duration> threshold() const;
  std::optional<Duration> best() const;
  /// Null while it is empty.
  const Candidate* front() const { return candidates_.empty() ? nullptr : &candidates_.front(); }
  std::vector<Candidate> take() { return std::move(candidates_); }

 private:
  std::size_t top_;
  std::vector<Candidate> candidates_;
};

/// Puts the prediction and the search's figures into the candidate's plan.
void write_figures(Candidate& candidate, const SearchResult& result);

/// Fills in what every strategy owes: the bound that follows from those of families, the gap to the
/// best plan, and the figures of all plans.
SearchResult finish(Leaderboard& board, SearchResult result);

}  // namespace stagecraft
