// The proof that no layout of equal blocks is within the limit, except those that were found. It is
// a branch and bound whose nodes ("cases") use probing ("trials") and walks
// (planner/relaxations/block_bound.hpp).

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
  /// The weights must outlive it. A proof adds paths to them and removes choices from their
  /// domains.
  BlockProof(BlockWeights& weights, const TimedOrder& order, int microbatches)
      : weights_(weights),
        table_(weights.table()),
        pairs_(table_, weights.costs(), order, weights.packing(), microbatches) {}

  /// See BlockBound. Sets `is_proved` of the weights.
  bool prove(std::int64_t effort, const std::stop_token& stop);
  /// The open nodes below the root; nothing if the effort runs out.
  std::optional<std::vector<BlockDomains>> begin(std::int64_t effort, const std::stop_token& stop);
  bool prove_case(const BlockDomains& domains, std::int64_t effort, const std::stop_token& stop);

  /// Effort for probing in one node.
  std::int64_t trials_in_case = 0;

 private:
  using PathRef = BlockWeights::PathRef;
  using Weights = BlockWeights::Weights;

  /// A branching: whether a device's stage at this turn (or all its stages together) has at least
  /// this many blocks.
  struct Split {
    int turn = 0;
    int blocks = 0;
  };
  struct DoubtfulSplit {
    Split split;
    double doubt = 0;  ///< number of devices, in the mean layout, that disagree with the majority
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
  BlockPairs pairs_;                    ///< set up once there are few enough choices
  BlockGame seen_;                      ///< the game of the latest `is_out`
  std::deque<BlockLayout> remembered_;  ///< layouts of mean layouts that were within the limit
  Weights best_weights_;                ///< the best weights of the latest `is_out`
  int cases_ = 0;                       ///< depth of nested nodes; 1 is the root
  std::int64_t last_ = 0;               ///< value of `spent()` at which the effort ends
  std::stop_token stop_;
};

}  // namespace stagecraft
