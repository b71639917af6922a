// Paths through a pipeline of equal blocks, with the length that each choice of a device adds to
// them (planner/relaxations/block_bound.hpp).

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/relaxations/block_table.hpp"
#include "planner/relaxations/lagrangian.hpp"
#include "planner/timing/critical_path.hpp"

namespace stagecraft {

/// A path and its length as a sum over stages, in units of the limit.
struct BlockPath {
  PassCounts path;
  double constant = 0;
  std::vector<double> lengths;  ///< [cell]
  std::int64_t used = 0;        ///< number of the game in which it last had weight
};

/// The matrix game of paths against the layouts that had the least sum for some weights.
using BlockGame = LayoutGame<BlockPath, BlockLayout>;

class BlockPaths {
 public:
  /// `limit` in nanoseconds is the unit of lengths. All arguments must outlive it.
  BlockPaths(const BlockTable& table, const PipelineCosts& costs, double limit)
      : table_(table), costs_(costs), limit_(limit) {}

  /// All paths that may enter games.
  const std::vector<BlockGame::RowRef>& all() const { return rows_; }
  const BlockGame::RowRef& latest() const { return rows_.back(); }
  void add(PassCounts path, std::int64_t game);
  /// If there are too many paths, removes those that have had no weight for longest.
  void drop_idle();

  /// Length of the path in the layout, in units of the limit.
  double length(const BlockPath& path, const BlockLayout& layout) const;
  /// The longest path outside the game in the mean layout of the latest game; null if none is
  /// longer than the game's value.
  BlockGame::RowRef longest_in_mixture(const BlockGame& seen, double value, std::int64_t game);

  /// Effort since the last call, in steps of about ten nanoseconds.
  std::int64_t take_steps() { return std::exchange(steps_, 0); }

 private:
  void list_lengths(std::size_t most_rows);

  const BlockTable& table_;
  const PipelineCosts& costs_;
  double limit_ = 0;
  std::vector<BlockGame::RowRef> rows_;
  std::vector<float> lengths_;  ///< lengths of all paths: [cell][row], with `most_rows_` rows per
                                ///< cell
  std::size_t most_rows_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace stagecraft
