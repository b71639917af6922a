// The best contiguous split whose cuts are all among given ones, in the max-load problem for
// accelerators alone: dynamic programming over pairs of cuts, one inside the other.

#pragma once

#include <cstdint>
#include <set>
#include <stop_token>
#include <vector>

#include "planner/baselines/dnn_partitioning/max_load.hpp"

namespace stagecraft {

class CutChains {
 public:
  explicit CutChains(const MaxLoadProblem& problem);

  /// `before` is a downset. The same one again changes nothing.
  void add(const std::vector<bool>& before);

  std::size_t size() const { return cuts_.size(); }

  /// The nodes of each part of the best split that loads all devices less than `below`; none if
  /// there is no such split among those cuts, or none was found until it was stopped.
  std::vector<std::vector<int>> best(double below, const std::stop_token& stop);

  /// Pairs of cuts looked at so far.
  std::int64_t compared() const { return compared_; }

 private:
  struct Cut {
    std::vector<std::uint64_t> before;
    double work = 0;
    double size = 0;
    std::vector<int> crossing;  ///< tensors, ascending
  };

  bool touches(int tensor, const Cut& from, const Cut& to) const;
  double load(const Cut& from, const Cut& to) const;
  void extend(std::size_t from, double below);

  const MaxLoadProblem& problem_;
  std::set<std::vector<bool>> known_;
  std::vector<Cut> cuts_;
  std::size_t width_;
  std::vector<double> loads_;      ///< per cut and devices before it
  std::vector<std::size_t> from_;  ///< the cut before, as far as there is a load
  std::int64_t compared_ = 0;
};

}  // namespace stagecraft
