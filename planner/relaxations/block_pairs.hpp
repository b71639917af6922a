// Choices of neighbours that go with each other: a walk over devices
// (planner/relaxations/block_walk.hpp), by the numbers that bounds know choices by.

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
  /// What is given outlives it.
  BlockPairs(const BlockTable& table, const PipelineCosts& costs, const TimedOrder& order,
             const BlockPacking& packing, int microbatches)
      : table_(table),
        costs_(costs),
        order_(order),
        packing_(packing),
        microbatches_(microbatches) {}

  /// Begins with the choices of these domains. Not where that is too many pairs of choices.
  void begin(const BlockDomains& domains, BlockWalk::Learn learn);
  bool has_begun() const { return walk_ != nullptr; }
  /// Effort that the first look at these domains takes.
  double steps_to_look_at(const BlockDomains& domains) const;
  bool can_look(std::int64_t effort) const { return walk_->can_look_at_pairs(effort); }

  /// What is known of pairs is of what the case before this one had.
  void leave_case() { is_of_case_ = false; }
  bool is_of_case() const { return is_of_case_; }
  /// What is left is what these have: of all pairs there are, unless some are known to be left.
  void enter_case(const BlockDomains& domains);
  void narrow(const BlockDomains& domains) { walk_->narrow(to_walk(domains)); }

  BlockDomains left() const;
  bool allows(const BlockLayout& layout) const;
  /// A figure of each choice, by devices.
  BlockWalk::Costs by_devices(const std::vector<double>& of_choices) const;

  /// By the clock, leaves out what takes longer than the limit, in nanoseconds. False if nothing is
  /// left.
  bool thin_out(double limit, std::int64_t effort, const std::stop_token& stop);
  /// The layout of the least sum of these figures, in which all go with the next, if it is at most
  /// this; leaves out what is in none.
  std::optional<BlockSum> cover(const std::vector<double>& of_choices, double most);
  /// Visits what is within the limit, each layout faster than those before. Whether it was done by
  /// the end of the effort.
  bool walk(double limit, std::int64_t effort, const std::function<void(const BlockLayout&)>& visit,
            const std::stop_token& stop);

  /// What it has spent so far, in steps of about ten nanoseconds.
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
  BlockDomains choices_;  ///< that the walk has, by their places in its lists
  std::unique_ptr<StageClock> clock_;
  std::unique_ptr<BlockWalk> walk_;
  BlockWalk::State whole_;  ///< of the walk, with all it has
  bool is_of_case_ = false;
};

}  // namespace stagecraft
