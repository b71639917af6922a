// Compatible choices of neighbouring devices: the walk over devices
// (planner/relaxations/block_walk.hpp), addressed by the choice numbers of `BlockTable`.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "planner/relaxations/block_sums.hpp"
#include "planner/relaxations/block_walk.hpp"

namespace stagecraft {

class BlockPairs {
 public:
  /// All arguments must outlive it.
  BlockPairs(const BlockTable& table, const PipelineCosts& costs, const TimedOrder& order,
             const BlockPacking& packing, int microbatches)
      : table_(table),
        costs_(costs),
        order_(order),
        packing_(packing),
        microbatches_(microbatches) {}

  /// Sets up the walk with the choices of these domains, unless these have too many pairs.
  void begin(const BlockDomains& domains, BlockWalk::Learn learn);
  bool has_begun() const { return walk_ != nullptr; }
  /// Effort of testing all pairs of these domains.
  double steps_to_look_at(const BlockDomains& domains) const;
  bool can_look(std::int64_t effort) const { return walk_->can_look_at_pairs(effort); }

  /// Marks that the known pairs belong to the previous node of the proof.
  void leave_case() { is_of_case_ = false; }
  bool is_of_case() const { return is_of_case_; }
  /// Restricts the walk to these domains. Pairs of this node are kept if they are known; else all
  /// pairs are open again.
  void enter_case(const BlockDomains& domains);
  void narrow(const BlockDomains& domains) { walk_->narrow(to_walk(domains)); }

  BlockDomains left() const;
  bool allows(const BlockLayout& layout) const;
  /// Regroups a figure of each choice by devices.
  BlockWalk::Costs by_devices(const std::vector<double>& of_choices) const;

  /// Removes choices and pairs whose bound by the clock is above the limit, in nanoseconds. False
  /// if nothing is left.
  bool thin_out(double limit, std::int64_t effort, const std::stop_token& stop);
  /// The layout of least sum of these figures in which neighbours are compatible, if the sum is at
  /// most `most`. Removes choices and pairs that are in no such layout.
  std::optional<BlockSum> cover(const std::vector<double>& of_choices, double most);
  /// Enumerates the layouts within the limit and visits those faster than all before. Returns false
  /// if the effort ran out.
  bool walk(double limit, std::int64_t effort, const std::function<void(const BlockLayout&)>& visit,
            const std::stop_token& stop);

  /// Effort used so far, in steps of about ten nanoseconds.
  std::int64_t spent() const { return walk_->spent(); }

 private:
  int to_walk(std::size_t device, int choice) const;
  BlockWalk::Items to_walk(const BlockDomains& domains) const;
  BlockLayout from_walk(const std::vector<int>& items) const;

  const BlockTable& table_;
  const PipelineCosts& costs_;
  const TimedOrder& order_;
  const BlockPacking& packing_;
  int microbatches_ = 0;
  BlockDomains choices_;  ///< choices of the walk, by their places in its lists
  std::unique_ptr<StageClock> clock_;
  std::unique_ptr<BlockWalk> walk_;
  BlockWalk::State whole_;  ///< state of the walk with all of its choices
  bool is_of_case_ = false;
};

}  // namespace stagecraft
