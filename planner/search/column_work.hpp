// The work on one branch of the search among plans of identical pipeline replicas
// (planner/search/column_search.hpp). It reads nothing of other branches, so several may be worked
// on side by side.

#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include "planner/relaxations/block_bound.hpp"
#include "planner/search/agenda.hpp"
#include "planner/search/evaluator.hpp"

namespace stagecraft {

/// The state of a proof, by branch and bound, that no layout of a branch takes at most `limit`.
struct ColumnProof {
  Time limit = 0;
  std::vector<BlockBound::Case> cases;  ///< open nodes
  Time least = never;                   ///< lower bound on the layouts outside the open nodes
  bool is_too_long = false;             ///< a node could not be closed within its effort
};

/// A subproblem: one pipeline depth, number of columns, schedule and microbatch.
struct ColumnBranch : Subproblem {
  Setting setting;
  Time step = never;  ///< step of `layout`, by the fast clock
  Layout layout;
  std::vector<Bytes> kept_free;      ///< headroom per device that simulations showed to be needed
                                     ///< (see FastClock)
  Time too_far = never;              ///< the lowest cutoff whose proof took too long
  std::optional<ColumnProof> proof;  ///< the proof in progress
  unsigned annealings = 0;
  bool has_asked_moments = false;  ///< memory peaks were checked, and do not rule out all layouts
  std::size_t raised = 0;          ///< number of calls of `raise`
  std::vector<Layout> latest;      ///< with recomputation per layer: layouts still to be made to
                                   ///< fit
  std::vector<PassCounts> paths;   ///< critical paths that raised its bound
                                   ///< (planner/relaxations/block_bound.hpp)

  /// The cutoff to prove next, given the incumbent's step `best`: within 1 % of `best`, or `best`
  /// itself if the bound is there already, but at most best/40 above the bound. If a proof of that
  /// took too long, half the way to that proof's cutoff. Nothing if that is less than best/500.
  std::optional<Time> next_limit(Time best) const;
  /// Merges the result of a copy that worked on one node of the proof. The copy returns the node
  /// itself if its work did not begin.
  void take_part(ColumnBranch part) {
    std::ranges::move(part.proof->cases, std::back_inserter(proof->cases));
    proof->least = std::min(proof->least, part.proof->least);
    proof->is_too_long = proof->is_too_long || part.proof->is_too_long;
    if (part.step >= step) return;
    step = part.step;
    layout = std::move(part.layout);
    kept_free = std::move(part.kept_free);
  }
};

/// The result of working on a branch, for the judge.
struct ColumnFindings {
  std::int64_t spent = 0;       ///< effort used
  std::vector<Layout> layouts;  ///< layouts to simulate, in this order
};

/// The space and the branch must outlive it. `limit` is the cutoff: slower plans do not matter.
class ColumnWork {
 public:
  ColumnWork(const Space& space, const std::stop_token& stop, ColumnBranch& branch, Time limit);

  /// Proposes a balanced pipeline that fits, unless the knapsack of blocks rules the branch out.
  void propose();
  /// Improves the branch's layout by moving cuts, with at most this effort.
  void improve(std::int64_t most);
  /// Improves the branch's layout by simulated annealing, with at most this effort and another seed
  /// at each call.
  void anneal(std::int64_t most);
  /// Raises the bound by a knapsack of blocks, if the layers are blocks, and by critical paths in
  /// this many rounds. Tries the layouts that the relaxations produce.
  void raise(int rounds);
  /// If the layers are blocks, raises the bound by proofs: to a little below the cutoff, then
  /// closer to it, as long as the proofs succeed within this effort.
  void climb(std::int64_t share);
  /// Begins one such proof. If open nodes are left, the branch keeps the proof.
  void begin_proof(Time limit, std::int64_t share);
  /// Works on the single node of the branch's proof.
  void prove_case(std::int64_t share);

  ColumnFindings take_findings() { return std::move(findings_); }

 private:
  bool is_open() const { return branch_.least <= std::min(limit_, never - 1); }
  std::vector<Layout> proposals() const;
  bool propose_tightest();
  bool take_if_better(const Layout& layout);
  std::optional<Layout> best_of_two_sizes();
  bool consider(const Layout& layout);
  void consider_layers_again(Layout layout);
  std::optional<BlockPacking> pack();
  /// Adds the effort of a finished packing to the findings.
  void charge(const std::optional<BlockPacking>& packing);
  bool raise_blocks(int rounds, const BlockPacking& packing);
  using Prove = std::function<void(BlockBound& bound, std::int64_t effort)>;
  void prove_below(Time limit, std::int64_t share, const Prove& prove);
  void raise_paths(int rounds, const std::optional<BlockPacking>& packing);
  bool bound_blocks(const BlockPacking& packing,
                    const std::function<void(BlockBound& bound)>& raise);
  const Space& space_;
  std::stop_token stop_;
  ColumnBranch& branch_;
  Time limit_;
  std::vector<int> replicas_;
  FastClock clock_;
  const TimedOrder* order_ = nullptr;  ///< null: the schedule does not accept the shape
  ColumnFindings findings_;
};

}  // namespace stagecraft
