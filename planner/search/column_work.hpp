// What is done to one branch of the search among plans of equal columns
// (planner/search/column_search.hpp). It sees nothing of other branches, so several may be worked
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

/// The proof that a branch has nothing of at most a limit, as far as it has come.
struct ColumnProof {
  Time limit = 0;
  std::vector<BlockBound::Case> cases;  ///< that are left
  Time least = never;                   ///< of what is in none of these nothing is faster
  bool is_too_long = false;             ///< to get through one that was left
};

/// A depth, and a number of columns, under one schedule and microbatch.
struct ColumnBranch : Subproblem {
  Setting setting;
  Time step = never;  ///< of its best layout so far, by the fast clock
  Layout layout;
  std::vector<Bytes> kept_free;      ///< see FastClock; what simulations have shown
  Time too_far = never;              ///< a proof that it has nothing of at most this was too long
  std::optional<ColumnProof> proof;  ///< that is under way
  unsigned annealings = 0;
  bool has_asked_moments = false;  ///< and it is not so that a device is always full
  std::size_t raised = 0;          ///< so often
  std::vector<Layout> latest;      ///< where layers choose, to be made to fit
  std::vector<PassCounts> paths;   ///< that raised its bound (planner/relaxations/block_bound.hpp)

  /// To be proved next, where a plan is known that takes so long: to within a hundredth of it,
  /// unless that is far, or all the way if it is there; or half the way to where a proof took too
  /// long. Nothing if that is not worth it.
  std::optional<Time> next_limit(Time best) const;
  /// What a copy of it, with one of its proof's cases, has found out. It still has the case if it
  /// did not get to it.
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

/// What working on a branch found out, for the judge.
struct ColumnFindings {
  std::int64_t spent = 0;       ///< of the effort
  std::vector<Layout> layouts;  ///< to be judged, in this order
};

/// The space and the branch outlive it. Only plans of at most `limit` matter.
class ColumnWork {
 public:
  ColumnWork(const Space& space, const std::stop_token& stop, ColumnBranch& branch, Time limit);

  /// A balanced pipeline that fits, unless whole blocks show that none is of use.
  void propose();
  /// Improves its layout, cut by cut, with so much of the effort at most.
  void improve(std::int64_t most);
  /// The same by annealing, where its stages may have any shape; otherwise each time.
  void anneal(std::int64_t most);
  /// Raises the bound by whole blocks, where the layers are blocks, and by paths, in so many
  /// rounds; the layouts they come across are tried.
  void raise(int rounds);
  /// Raises the bound where the layers are blocks, by proofs: to a little below the limit, then
  /// closer to it, as long as that works and takes no more than this share of the effort.
  void climb(std::int64_t share);
  /// Begins one such proof. If cases are left, it is the branch's from now on.
  void begin_proof(Time limit, std::int64_t share);
  /// Goes through the only case of its proof.
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
  /// Once it is done with.
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
  const TimedOrder* order_ = nullptr;  ///< null: the schedule refuses the shape
  ColumnFindings findings_;
};

}  // namespace stagecraft
