// The incumbents of a search, and the figures of its answer.

#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The best candidates so far (incumbents). Equal steps are ordered by the number of devices, then
/// by the plan's text. Of plans with equal steps that differ only in the order of a stage's
/// replicas or layers, one is kept.
class Leaderboard {
 public:
  explicit Leaderboard(int top) : top_(static_cast<std::size_t>(top < 1 ? 1 : top)) {}
  /// Adds the candidate if it fits in memory and is among the best.
  void add(const Candidate& candidate);
  /// Cutoff: only a faster plan would change the board; nothing while there is room.
  std::optional<Duration> threshold() const;
  std::optional<Duration> best() const;
  /// Null while it is empty.
  const Candidate* front() const { return candidates_.empty() ? nullptr : &candidates_.front(); }
  std::vector<Candidate> take() { return std::move(candidates_); }

 private:
  std::size_t top_;
  std::vector<Candidate> candidates_;
};

/// Writes the prediction and the search's figures into the candidate's plan.
void write_figures(Candidate& candidate, const SearchResult& result);

/// Completes a strategy's result: the bound that follows from the families, the gap to the best
/// plan, and the figures of all plans.
SearchResult finish(Leaderboard& board, SearchResult result);

}  // namespace stagecraft
