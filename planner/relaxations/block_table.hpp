// Every choice of blocks that a device of a pipeline has, as a number, and what it costs
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

/// Choices by their numbers, ascending.
using BlockNumbers = std::vector<int>;
/// Of each device, those that are left.
using BlockDomains = std::vector<BlockNumbers>;
/// A layout: a choice of each device.
using BlockLayout = std::vector<int>;

/// What many choices have in common: a stage of so many blocks.
struct BlockCell {
  int stage = 0;
  const StageCosts* costs = nullptr;
  double again = 0;  ///< recomputation with each backward
};

/// All turns of a device together, where one of them is asked for.
inline constexpr int all_turns = -1;

class BlockTable {
 public:
  /// What is given outlives the table.
  BlockTable(const PipelineCosts& costs, const TimedOrder& order, const BlockPacking& packing);
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;
  ~BlockTable() = default;

  /// All choices of each device; none where there are too many to list.
  const BlockDomains& domains() const { return domains_; }
  int size() const { return static_cast<int>(choices_.size()); }
  /// Stages of each device.
  std::size_t turns() const { return turns_; }

  const BlockChoice& what(int choice) const { return *choices_[index(choice)].what; }
  int device_of(int choice) const { return choices_[index(choice)].device; }
  /// In all turns.
  int blocks_of(int choice) const { return choices_[index(choice)].blocks; }
  int blocks_of(int choice, int turn) const {
    return turn == all_turns ? blocks_of(choice) : what(choice).blocks[index(turn)];
  }

  const std::vector<BlockCell>& cells() const { return cells_; }
  /// Of each of its stages.
  std::span<const int> cells_of(int choice) const {
    return std::span(choice_cells_).subspan(index(choice) * turns_, turns_);
  }
  double sum_over_cells(int choice, const std::vector<double>& of_cells) const {
    double sum = 0;
    for (const int cell : cells_of(choice)) sum += of_cells[index(cell)];
    return sum;
  }
  /// What its stages take, in its turns.
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
