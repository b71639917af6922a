// Weighted sums of path lengths for each choice, and the layout of least sum: a knapsack over
// devices (planner/relaxations/block_bound.hpp).

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/relaxations/block_paths.hpp"
#include "planner/relaxations/knapsack.hpp"

namespace stagecraft {

/// A layout and its weighted sum of path lengths, in units of the limit.
struct BlockSum {
  double value = 0;
  BlockLayout layout;
};

class BlockSums {
 public:
  /// The table must outlive it.
  explicit BlockSums(const BlockTable& table)
      : table_(table), of_choices_(index(table.size())), items_(table.domains().size()) {}

  /// Computes the sum of each choice of the domains under these weights. Returns the constant that
  /// all layouts have besides.
  double list(const BlockGame::Weights& weights, const BlockDomains& domains);
  const std::vector<double>& of_choices() const { return of_choices_; }

  /// Finds the layout of least sum with this many blocks, without regard to neighbours; false if
  /// there is none.
  bool cover(const BlockDomains& domains, int blocks, double constant, BlockSum& least);
  /// After `cover`: the least sum of all other devices if this choice is taken.
  double others(int choice) {
    return cover_.others(table_.device_of(choice), table_.blocks_of(choice));
  }

  /// Effort since the last call, in steps of about ten nanoseconds.
  std::int64_t take_steps() { return std::exchange(steps_, 0); }

 private:
  const BlockTable& table_;
  std::vector<double> of_cells_;    ///< sum of each cell under the latest weights
  std::vector<double> of_choices_;  ///< sum of each remaining choice
  BlockCover cover_;
  std::vector<std::vector<BlockItem>> items_;  ///< input of `cover_`
  std::int64_t steps_ = 0;
};

}  // namespace stagecraft
