// A lower bound for pipelines of alike blocks (planner/relaxations/block_packing.hpp) under any
// schedule, tightened until no layout below the cutoff remains.
//
// As planner/relaxations/path_bound.hpp has it, weighted lengths of paths bound the step of every
// layout. Where layers are alike blocks, where a stage begins does not matter but how many blocks
// it has: a layout is a choice for each device, of those that fit, and the least weighted sum is a
// knapsack over devices (planner/relaxations/knapsack.hpp). Paths and layouts found so far are
// a matrix game (planner/relaxations/lagrangian.hpp); the next weights lie half way to its best
// ones (Wentges 1997). In the mean of layouts that the game balances no path is longer than the
// critical one: as long as that is longer than the game knows, it is one more path (Kelley 1960).
//
// Weights see the mean of choices, which is less than any of them. If the first stages of all
// devices have 4 blocks and the second ones 1, or the other way round, devices work in step. If
// some devices split 4+1 and others 1+4, a microbatch meets a 4-block stage on every device; the
// relaxation sees the average, 2.5. So choices are removed for good:
//
//   by sums    the least weighted sum of all layouts with this choice is above the limit. Any
//              weights tell that of all choices at once (fixing by reduced costs; Dantzig,
//              Fulkerson and Johnson 1954)
//   by trial   with nothing but some choices on their device, weights are found that rule out all
//              layouts; meanwhile sums leave out choices of others
//
// A walk (planner/relaxations/block_walk.hpp) sees what weights do not. Trials and its means,
// which leave out choices by what neighbours wait for each other, take turns, as long as much is
// left out; then it goes through what is left. Where that takes long, cases are made, each with all
// of this: of the devices that may have so many blocks in their stage of this turn, or fewer,
// either none has them, or this one is the first. In the end nothing is left
// that is faster than the best layout found, or if none was, nothing within the limit.

#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "planner/relaxations/block_proof.hpp"

namespace stagecraft {

class BlockBound {
 public:
  /// Whether the layout counts: then only faster ones are of interest.
  using Visit = BlockWeights::Visit;

  /// The order is the setting's, for its depth. Only layouts of at most the packing's limit are
  /// bounded. Layouts that come up, each better than those before and all fit, go to `visit`. What
  /// is given outlives the bound.
  BlockBound(const Space& space, const Setting& setting, const TimedOrder& order,
             const BlockPacking& packing, Visit visit)
      : weights_(space, setting, order, packing, std::move(visit)),
        proof_(weights_, order, setting.microbatches) {}

  /// False where there are too many choices to list: then this can tell nothing.
  bool knows_choices() const { return !weights_.table().domains().empty(); }

  /// The bound will start from the critical paths of this layout; else from those of a balanced
  /// one.
  void start_from(const Layout& layout) { weights_.start_from(layout); }
  /// These paths of the setting are known to be of use, from another limit.
  void know(const std::vector<PassCounts>& paths) { weights_.know(paths); }
  /// Those that were of use most recently, for another limit.
  std::vector<PassCounts> useful_paths() const;

  /// Raises the bound by weights, in so many rounds at most, until a stop is requested.
  void raise(int rounds, const std::stop_token& stop = {});

  /// What the weights of the latest rounds balance, in whole blocks: the mean of the layouts that
  /// they found, rounded from the first stage on; nothing before such a round. It need not fit, and
  /// recomputes nothing.
  std::optional<Layout> mean_layout() const { return weights_.mean_layout(); }

  /// Whether it is proved that no layout within the limit is left, but those that were visited;
  /// then the bound is the step of the fastest of these, or above the limit. Else it stays as it
  /// was. Gives up after so much effort, or if a stop is requested.
  bool prove(std::int64_t effort, const std::stop_token& stop = {}) {
    return proof_.prove(effort, stop);
  }

  /// A part of what a proof has left, with which others may go on side by side.
  struct Case {
    /// Choices per device, by their numbers, which bounds of equal packings have in common.
    BlockDomains domains;
    std::int64_t trials = 0;  ///< effort for those in it
  };
  /// Begins with `prove`: all is proved if no case is left. Nothing if it gives up. Of layouts in
  /// no case none is faster than `least_found`.
  std::optional<std::vector<Case>> begin_proof(std::int64_t effort,
                                               const std::stop_token& stop = {});
  /// `prove` of one of the cases, by a bound made for it, which is the case's.
  bool prove_case(const Case& part, std::int64_t effort, const std::stop_token& stop = {});

  /// The fastest that was timed, above the limit if none within it was.
  Time least_found() const { return weights_.least_found(); }
  /// No layout that fits takes less than this, unless more than the limit.
  Time bound() const { return weights_.bound(); }
  /// What it has spent so far, in steps of about ten nanoseconds.
  std::int64_t spent() const { return weights_.spent(); }

 private:
  BlockWeights weights_;
  BlockProof proof_;
};

}  // namespace stagecraft
