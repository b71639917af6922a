// Lower bounds on the costs of cuts of a max-load problem, by the work before them; and from these,
// a lower bound on the largest load over all partitions, without a list of the graph's downsets.
//
// For accelerators alone, whose memory is left out. Work is time on one.

#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "planner/baselines/dnn_partitioning/closure_cut.hpp"
#include "planner/baselines/dnn_partitioning/max_load.hpp"

namespace stagecraft {

/// Sums in another order differ by less, as a part of all work.
inline constexpr double work_rounding = 1e-9;

/// Work before and behind nodes, and around tensors.
struct WorkAround {
  explicit WorkAround(const MaxLoadProblem& problem);

  /// Where each node is if a cut has from `least` to `most` work before it; none if no cut has.
  std::optional<std::vector<CutSide>> sides(double least, double most) const;

  double total = 0;
  std::vector<double> until;  ///< of each node: its work and that of all it needs
  std::vector<double> from;   ///< its work and that of all that need it
  /// Of each tensor: the most work of a part that it can have nodes both before and behind of.
  std::vector<double> spans;
};

/// Cuts with about the same work before them.
struct CutLevel {
  double least = 0, most = 0;  ///< work before the cut
  bool is_possible = true;
  /// Per class of tensors: what those of the class cost at least where they cross such a cut.
  std::vector<double> costs;
};

class CutLevels {
 public:
  /// So many levels, each with an equal part of the work. Costs that would take more steps than
  /// that, and all after a stop, are zero.
  CutLevels(const MaxLoadProblem& problem, int levels, std::int64_t most_steps,
            const std::stop_token& stop);

  /// May a split over that many devices load each less than this?
  bool allow(int devices, double load) const;

  /// The largest load up to `most` that they do not allow; 0 if there is none.
  double lower_bound(int devices, double most) const;

  /// Per number of devices up to that (0 first), per level: the most work there can be before a cut
  /// of it and on that many devices, each loaded less; negative where there is no such cut.
  std::vector<std::vector<double>> reach(int devices, double load) const;
  /// The same from the other end: the least work before the cut, if so many devices do the rest.
  std::vector<std::vector<double>> reach_back(int devices, double load) const;

  /// What tensors cost at least that cross a cut of the level, of those that no part with this much
  /// work has nodes both before and behind of.
  double cost(const CutLevel& level, double part) const;

  const std::vector<CutLevel>& levels() const { return levels_; }
  const WorkAround& work() const { return work_; }
  /// Sums in another order differ by less.
  double tolerance() const;

  /// Cheap cuts that were met.
  const CutList& cuts() const { return cuts_; }

 private:
  std::int64_t measure(CutLevel& level, const std::vector<CutSide>& sides, std::int64_t most_steps);
  double least_cost(const CutLevel& level, CutQuestion& question, std::int64_t& steps);

  const MaxLoadProblem& problem_;
  WorkAround work_;
  std::vector<double> classes_;  ///< class c has the tensors with spans up to this
  std::vector<CutLevel> levels_;
  CutList cuts_;
};

}  // namespace stagecraft
