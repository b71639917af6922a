// The proof that no layout of alike blocks is within the limit but those that were found: trials,
// walks, and cases, each with all of this (planner/relaxations/block_bound.hpp).

#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <stop_token>
#include <vector>

#include "planner/relaxations/block_weights.hpp"

namespace stagecraft {

class BlockProof {
 public:
  /// The weights outlive it; what they know grows, and what is left of their choices shrinks while
  /// it is at work.
  BlockProof(BlockWeights& weights, const TimedOrder& order, int microbatches)
      : weights_(weights),
        table_(weights.table()),
        pairs_(table_, weights.costs(), order, weights.packing(), microbatches) {}

  /// See BlockBound. What it proves is the weights' `is_proved`.
  bool prove(std::int64_t effort, const std::stop_token& stop);
  /// Cases of what is left; nothing if it gives up.
  std::optional<std::vector<BlockDomains>> begin(std::int64_t effort, const std::stop_token& stop);
  bool prove_case(const BlockDomains& domains, std::int64_t effort, const std::stop_token& stop);

  /// Effort for trials in a case.
  std::int64_t trials_in_case = 0;

 private:
  using PathRef = BlockWeights::PathRef;
  using Weights = BlockWeights::Weights;

  /// Devices differ in whether their stage of this turn, or all of them, has at least so many.
  struct Split {
    int turn = 0;
    int blocks = 0;
  };
  struct DoubtfulSplit {
    Split split;
    double doubt = 0;  ///< in devices
  };

  bool stops() const { return weights_.spent() > last_ || stop_.stop_requested(); }
  BlockDomains& domains() const { return weights_.domains; }
  int depth() const { return static_cast<int>(domains().size()); }
  void begin_effort(std::int64_t effort, const std::stop_token& stop);

  // --- In step ---
  void begin_pairs();
  bool fall_in_step(std::int64_t last);
  bool is_out_of_step(std::int64_t effort);
  bool is_walked_out(std::int64_t effort);

  // --- Trials ---
  void remember_mixture();
  void begin_game(const Weights& start);
  bool is_out(const Weights& start);
  bool is_played_out(const Weights& start);
  bool leave_out_set(const BlockNumbers& set, const Weights& start, const PathRef& path);
  void leave_out_most(int device, int turn, const Weights& start, const PathRef& path);
  void leave_out_most(const Weights& start);
  BlockNumbers by_sum();
  void leave_out_each(const Weights& start);
  bool thin_out(Weights& weights);
  std::size_t choices_left() const;
  bool is_out_by_trials(Weights& weights, std::int64_t effort);

  // --- Cases ---
  bool thin_out_by_turns(Weights& weights);
  bool divide(Weights& weights, std::vector<BlockDomains>& cases);
  bool is_case_out(BlockDomains domains, Weights weights);
  std::vector<int> undecided(const Split& split) const;
  std::vector<DoubtfulSplit> splits() const;
  BlockDomains domains_of_case(const Split& split, const std::vector<int>& devices,
                               std::size_t first) const;
  double left_of_middle(const Split& split, Weights weights, std::int64_t effort);
  std::optional<Split> best_split(const Weights& weights, std::int64_t past);
  std::vector<BlockDomains> cases_of(const Split& split) const;
  std::vector<BlockDomains> cases_of_choices(std::size_t device) const;

  BlockWeights& weights_;
  const BlockTable& table_;
  BlockPairs pairs_;                    ///< once there are few enough choices
  BlockGame seen_;                      ///< of the latest `is_out`
  std::deque<BlockLayout> remembered_;  ///< layouts, of means that are within the limit
  Weights best_weights_;                ///< that `is_out` found
  int cases_ = 0;                       ///< one inside the other; the first is the whole
  std::int64_t last_ = 0;               ///< effort may be spent up to here
  std::stop_token stop_;
};

}  // namespace stagecraft
