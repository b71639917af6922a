// All choices of blocks of a pipeline's devices, numbered, with their costs
// (planner/relaxations/block_bound.hpp).

#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "planner/relaxations/block_packing.hpp"
#include "planner/timing/pipeline_costs.hpp"
#include "planner/timing/timed_order.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

/// Numbers of choices, ascending.
using BlockNumbers = std::vector<int>;
/// The remaining choices of each device.
using BlockDomains = std::vector<BlockNumbers>;
/// A layout: one choice for each device.
using BlockLayout = std::vector<int>;

/// A stage with a number of blocks, which many choices share.
struct BlockCell {
  int stage = 0;
  const StageCosts* costs = nullptr;
  double again = 0;  ///< recomputation with each backward
};

/// Stands for all turns (stages) of a device together.
inline constexpr int all_turns = -1;

class BlockTable {
 public:
  /// All arguments must outlive the table.
  BlockTable(const PipelineCosts& costs, const TimedOrder& order, const BlockPacking& packing);
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;
  ~BlockTable() = default;

  /// All choices of each device; empty if there are too many to list.
  const BlockDomains& domains() const { return domains_; }
  int size() const { return static_cast<int>(choices_.size()); }
  /// Number of stages of each device.
  std::size_t turns() const { return turns_; }

  const BlockChoice& what(int choice) const { return *choices_[index(choice)].what; }
  int device_of(int choice) const { return choices_[index(choice)].device; }
  /// Number of blocks of a choice in all turns.
  int blocks_of(int choice) const { return choices_[index(choice)].blocks; }
  int blocks_of(int choice, int turn) const {
    return turn == all_turns ? blocks_of(choice) : what(choice).blocks[index(turn)];
  }

  const std::vector<BlockCell>& cells() const { return cells_; }
  /// The cells of a choice, one for each turn.
  std::span<const int> cells_of(int choice) const {
    return std::span(choice_cells_).subspan(index(choice) * turns_, turns_);
  }
  double sum_over_cells(int choice, const std::vector<double>& of_cells) const {
    double sum = 0;
    for (const int cell : cells_of(choice)) sum += of_cells[index(cell)];
    return sum;
  }
  /// Times of the choice's stages, by turn.
  std::vector<StageTimes> times_of(int choice) const;

 private:
  struct Choice {
    const BlockChoice* what = nullptr;
    int device = 0, blocks = 0;
  };

  void list_choices(const PipelineCosts& costs, const TimedOrder& order,
                    const BlockPacking& packing);

  std::optional<std::vector<std::vector<BlockChoice>>> all_choices_;
  std::size_t turns_ = 0;
  BlockDomains domains_;
  std::vector<Choice> choices_;
  std::vector<BlockCell> cells_;
  std::vector<int> choice_cells_;  ///< [choice, turn]
};

}  // namespace stagecraft
