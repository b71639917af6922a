// The cut of a max-load problem behind which least is left to do, among those that a device can get
// to: branch and bound over the sides of nodes.

#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "planner/baselines/dnn_partitioning/cut_levels.hpp"

namespace stagecraft {

/// What a cut is asked for: as much work before it (what is found may have less or more), and
///   cost of tensors that cross it + work before it < above,
///   cost of tensors that cross it - work before it < below.
struct CutLimits {
  double least = 0, most = 0;
  double above = 0, below = 0;
  std::vector<bool> above_free, below_free;  ///< of each tensor: does not count in that limit
};

/// The least of `cost - work before` of any cut within limits.
struct LeastLeft {
  double value = 0;  ///< not above it; the limit `below` itself if there is no such cut
  CutList cuts;      ///< better ones found, the best one last
};

/// Open nodes, those together that no cut separates.
struct CutGroups {
  Dag dag;                 ///< of groups
  std::vector<int> group;  ///< of each open node
};

class CutFinder {
 public:
  /// What it finds may be so much below the least. Steps are arcs of networks looked at.
  CutFinder(const MaxLoadProblem& problem, const WorkAround& work, double tolerance,
            std::int64_t most_steps, const std::stop_token& stop);

  /// None if it takes too many steps to tell, or was stopped.
  std::optional<LeastLeft> find(const CutLimits& limits);

  std::int64_t steps_left() const { return steps_left_; }

 private:
  bool may_go_on() const;
  bool list(std::vector<CutSide> sides);
  bool settle(std::vector<CutSide>& sides);
  CutGroups grouped(const std::vector<CutSide>& sides);
  bool branch(const std::vector<CutSide>& sides);
  void try_all(const std::vector<CutSide>& sides, const CutGroups& groups, const Lattice& lattice);
  void try_cut(const std::vector<bool>& before);

  const MaxLoadProblem& problem_;
  const WorkAround& work_;
  double tolerance_;
  std::int64_t steps_left_;
  std::stop_token stop_;
  std::vector<std::vector<int>> inputs_, readers_;
  CutLimits limits_;  ///< of cuts that are better, by the tolerance, than those found
  LeastLeft found_;
};

}  // namespace stagecraft
