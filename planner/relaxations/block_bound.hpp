// A lower bound for pipelines of equal blocks (planner/relaxations/block_packing.hpp) under any
// schedule, tightened until no layout below the cutoff remains.
//
// As in planner/relaxations/path_bound.hpp, a weighted sum of path lengths bounds the step of every
// layout (Lagrangian relaxation); the weights are its multipliers. If layers are equal blocks, only
// the number of blocks of a stage matters, not where the stage begins: a layout is one choice for
// each device, out of those that fit, and the least weighted sum is a knapsack over devices
// (planner/relaxations/knapsack.hpp). The paths and layouts found so far form a matrix game, the
// restricted master problem (planner/relaxations/lagrangian.hpp); the next weights lie half way to
// its optimum (Wentges 1997). The optimum also gives a convex combination of layouts, the mean
// layout. Its critical path is a new cut if it is longer than every path in the game (Kelley 1960).
//
// The relaxation sees mean layouts, whose paths can be shorter than those of any whole layout. If
// the first stages of all devices have 4 blocks and the second ones 1, or the other way round,
// devices work in step. If some devices split 4+1 and others 1+4, a microbatch meets a 4-block
// stage on every device; the relaxation sees the average, 2.5. So choices are removed for good:
//
//   by sums    reduced-cost fixing: the least weighted sum of all layouts with this choice is above
//              the limit. Any weights test all choices at once (Dantzig, Fulkerson and Johnson
//              1954)
//   by trial   probing: with only some choices left on one device, weights are found that rule out
//              all layouts, so that these choices can be removed; reduced-cost fixing removes
//              choices of other devices on the way
//
// A walk (planner/relaxations/block_walk.hpp) removes choices by what neighbouring devices wait for
// each other, which weights do not see. Probing and the walk's tests alternate as long as they
// remove much; then the walk enumerates the layouts that are left. If that would take long, the
// proof branches: of the devices that may have at least b blocks in a certain stage, or fewer,
// either none has b or more, or device i is the first that has. Each node is treated in the same
// way. In the end no layout is left that is faster than the best one found or, if none was found,
// within the limit.

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
  /// Called with a layout; returns whether it becomes the incumbent, so that only faster layouts
  /// are of interest.
  using Visit = BlockWeights::Visit;

  /// `order` is the order of the setting's schedule at its depth. Only layouts within the packing's
  /// limit are bounded. `visit` gets the layouts found, all of which fit, each faster than those
  /// before. All arguments must outlive the bound.
  BlockBound(const Space& space, const Setting& setting, const TimedOrder& order,
             const BlockPacking& packing, Visit visit)
      : weights_(space, setting, order, packing, std::move(visit)),
        proof_(weights_, order, setting.microbatches) {}

  /// False if there are too many choices to list; then the bound is not available.
  bool knows_choices() const { return !weights_.table().domains().empty(); }

  /// Starts the bound from the critical paths of this layout, instead of those of a balanced one.
  void start_from(const Layout& layout) { weights_.start_from(layout); }
  /// Adds critical paths of this setting that were useful for another limit.
  void know(const std::vector<PassCounts>& paths) { weights_.know(paths); }
  /// The paths that had weight most recently, to be used for another limit.
  std::vector<PassCounts> useful_paths() const;

  /// Raises the bound by better weights, in at most this many rounds, until a stop is requested.
  void raise(int rounds, const std::stop_token& stop = {});

  /// The mean layout of the latest rounds, rounded to whole blocks from the first stage on; nothing
  /// before the first round. It recomputes nothing, and need not fit.
  std::optional<Layout> mean_layout() const { return weights_.mean_layout(); }

  /// Tries to prove that no layout within the limit is left except those that were visited. Returns
  /// true if proved: then the bound is the step of the fastest visited layout, or above the limit.
  /// Returns false, and leaves the bound, if the effort runs out or a stop is requested.
  bool prove(std::int64_t effort, const std::stop_token& stop = {}) {
    return proof_.prove(effort, stop);
  }

  /// An open node of a proof. Nodes may be worked on side by side.
  struct Case {
    /// Choices per device, by their numbers. Bounds with equal packings use the same numbers.
    BlockDomains domains;
    std::int64_t trials = 0;  ///< effort for probing in this node
  };
  /// Begins a proof and returns its open nodes; all is proved if there are none. Nothing if the
  /// effort runs out. Layouts outside the nodes are not faster than `least_found`.
  std::optional<std::vector<Case>> begin_proof(std::int64_t effort,
                                               const std::stop_token& stop = {});
  /// Like `prove`, for one node. Call it on a bound that was made for this node.
  bool prove_case(const Case& part, std::int64_t effort, const std::stop_token& stop = {});

  /// Step of the fastest layout that was timed; above the limit if none within the limit was timed.
  Time least_found() const { return weights_.least_found(); }
  /// Lower bound on the layouts that fit; valid up to the limit.
  Time bound() const { return weights_.bound(); }
  /// Effort used so far, in steps of about ten nanoseconds.
  std::int64_t spent() const { return weights_.spent(); }

 private:
  BlockWeights weights_;
  BlockProof proof_;
};

}  // namespace stagecraft
