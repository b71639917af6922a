// Weighted sums of paths, choice by choice, and the layout of the least one: a knapsack over
// devices (planner/relaxations/block_bound.hpp).

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/relaxations/block_paths.hpp"
#include "planner/relaxations/knapsack.hpp"

namespace stagecraft {

/// A layout, and its weighted sum of paths in parts of the limit.
struct BlockSum {
  double value = 0;
  BlockLayout layout;
};

class BlockSums {
 public:
  /// The table outlives them.
  explicit BlockSums(const BlockTable& table)
      : table_(table), of_choices_(index(table.size())), items_(table.domains().size()) {}

  /// Of each choice of the domains, by these weights. Returns what all layouts have besides.
  double list(const BlockGame::Weights& weights, const BlockDomains& domains);
  const std::vector<double>& of_choices() const { return of_choices_; }

  /// The least sum of any choices beside each other that have so many blocks together; false if
  /// there are none.
  bool cover(const BlockDomains& domains, int blocks, double constant, BlockSum& least);
  /// Of the latest cover, the least sum of all other devices where this choice is taken.
  double others(int choice) {
    return cover_.others(table_.device_of(choice), table_.blocks_of(choice));
  }

  /// Effort since this was last asked, in steps of about ten nanoseconds.
  std::int64_t take_steps() { return std::exchange(steps_, 0); }

 private:
  const BlockTable& table_;
  std::vector<double> of_cells_;    ///< by the latest weights
  std::vector<double> of_choices_;  ///< per choice that is left
  BlockCover cover_;
  std::vector<std::vector<BlockItem>> items_;  ///< of `cover_`
  std::int64_t steps_ = 0;
};

}  // namespace stagecraft
