// Paths through a pipeline of alike blocks, by what each choice of a device makes them longer
// (planner/relaxations/block_bound.hpp).

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/relaxations/block_table.hpp"
#include "planner/relaxations/lagrangian.hpp"
#include "planner/timing/critical_path.hpp"

namespace stagecraft {

/// A path, and its length in parts of the limit: a sum over what stages have.
struct BlockPath {
  PassCounts path;
  double constant = 0;
  std::vector<double> lengths;  ///< [cell]
  std::int64_t used = 0;        ///< in this game it last had part
};

/// The game of paths against layouts that had the least sum for some weights.
using BlockGame = LayoutGame<BlockPath, BlockLayout>;

class BlockPaths {
 public:
  /// Lengths are in parts of the limit, in nanoseconds. What is given outlives them.
  BlockPaths(const BlockTable& table, const PipelineCosts& costs, double limit)
      : table_(table), costs_(costs), limit_(limit) {}

  /// Those that may have part in games.
  const std::vector<BlockGame::RowRef>& all() const { return rows_; }
  const BlockGame::RowRef& latest() const { return rows_.back(); }
  void add(PassCounts path, std::int64_t game);
  /// Lets go of those that had no part for longest, of too many.
  void drop_idle();

  /// Of the layout, in parts of the limit.
  double length(const BlockPath& path, const BlockLayout& layout) const;
  /// Of the paths that have no part the longest, in the mean of the latest game's layouts; null if
  /// none is longer than the game's value.
  BlockGame::RowRef longest_in_mixture(const BlockGame& seen, double value, std::int64_t game);

  /// Effort since this was last asked, in steps of about ten nanoseconds.
  std::int64_t take_steps() { return std::exchange(steps_, 0); }

 private:
  void list_lengths(std::size_t most_rows);

  const BlockTable& table_;
  const PipelineCosts& costs_;
  double limit_ = 0;
  std::vector<BlockGame::RowRef> rows_;
  std::vector<float> lengths_;  ///< of all of them: [cell][row], `most_rows_` apart
  std::size_t most_rows_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace stagecraft
