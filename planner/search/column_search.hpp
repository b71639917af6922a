// The search among plans whose stages all have the same number of replicas, so that the plan
// consists of identical pipeline replicas ("columns"). It serves clusters with too many devices to
// try every number of replicas of every stage.
//
// Each combination of number of columns, pipeline depth, schedule and microbatch is one subproblem
// ("branch"), and starts with a closed-form lower bound (planner/relaxations/work_bound.hpp).
//
// 1. While no plan fits, branches are first relaxed to find those whose memory can hold nothing.
//    Every branch whose bound is below the incumbent tightens it by a knapsack of blocks
//    (planner/relaxations/block_packing.hpp), and if it is still below, proposes balanced pipelines
//    that fit.
// 2. Local search moves cuts in the best few layouts.
// 3. Branches whose bound is still below the incumbent tighten it by critical paths
//    (planner/relaxations/path_bound.hpp, and planner/relaxations/block_bound.hpp if layers are
//    blocks), in three rounds, then thirty, then more; the layouts that these relaxations produce
//    are tried. If there are far too many such branches, the overall bound cannot rise, and only
//    the most promising layouts are improved. If layers are not blocks, the layouts that paths
//    leave are enumerated (planner/relaxations/path_walk.hpp), first for few stages.
// 4. The most promising layouts are annealed. Then branches of blocks that are still below the
//    incumbent prove that no layout is within a cutoff, which rises in steps to the incumbent. The
//    most promising of the branches that are left are annealed again.
// 5. Local search improves the layouts of the branches still below the incumbent; those with one
//    stage per device also tighten their bound by bisection (planner/relaxations/chain_bounds.hpp).
// 6. The remaining effort is spent on the branch of the lowest bound, which determines the gap, by
//    enumeration and proofs.
//
// These are rows of its agenda (planner/search/agenda.hpp).

#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "planner/relaxations/work_bound.hpp"
#include "planner/search/column_work.hpp"
#include "planner/space/setting_kinds.hpp"
#include "planner/space/workers.hpp"

namespace stagecraft {

/// Whether the setting is left to `ColumnSearch`: it has too many layouts to enumerate, or many
/// layouts of which columns give better bounds.
bool is_wide(const Space& space, const Setting& setting);

class ColumnSearch {
 public:
  ColumnSearch(const Space& space, const SearchControl& control, Judge& judge,
               SpaceWorkers& workers);

  /// Adds a branch for each number and depth of columns under this setting.
  void add(const Setting& setting);
  /// Runs the agenda; calls `report` after each batch.
  void search(std::function<void()> report);
  /// The search for plans with recomputation per layer: tightens bounds by critical paths, the
  /// lowest first, and makes the layouts found on the way fit.
  void search_layers_again(std::function<void()> report);

  /// See `ColumnBounds`.
  Time least_of_all(const Setting& setting) { return bounds_.least_of_all(setting); }
  /// Lower bound on all plans of columns, except those already simulated.
  Time least() const;
  /// The branch of the lowest bound and the relaxation that gave it, in words; empty if the bound
  /// is that of a closed branch by formula.
  std::string rests_on() const;
  /// Number of branches, closed ones included.
  std::size_t branches() const { return branches_.size() + closed_; }
  std::size_t done() const;

  // --- For its agenda ---
  using Part = ColumnBranch;
  bool ends(const Method<ColumnSearch>& method) const {
    return method.ignores_gap ? stops() : is_enough();
  }
  bool takes(const ColumnBranch& branch) const { return is_open(branch); }
  bool has_incumbent() const { return judge_.board().best().has_value(); }
  Effort& effort() { return judge_.effort(); }
  void report() const { report_(); }

 private:
  /// A method, applied to one branch.
  using Task = std::function<void(ColumnWork& work)>;
  using Row = Method<ColumnSearch>;
  using Branches = Row::Parts;
  using Batch = Row::Batch;

  static std::span<const Row> agenda();

  bool is_open(const ColumnBranch& branch) const;
  bool stops() const { return judge_.stopped() || judge_.is_spent(); }
  bool is_enough() const { return stops() || gap() <= control_.gap; }
  bool may_prove() const { return may_prove_; }
  bool may_not_prove() const { return !may_prove_; }
  bool has_no_limit() const { return judge_.limit() >= never; }
  /// Whether there is effort to raise all bounds, and an incumbent.
  bool may_prove_limit() const { return may_prove_ && judge_.limit() < never; }
  bool may_prove_thoroughly() const { return may_prove_ && control_.thorough; }
  double gap() const;
  static std::string words_of_bound(const ColumnBranch& branch);

  // --- Which branches ---
  Branches all_by_least();
  Branches open_branches();
  Branches open_by_least();
  Branches open_of_other_layers(int most_stages);
  Branches open_of_few_stages();
  Branches open_of_any_stages() { return open_of_other_layers(space_.layers()); }
  Branches far_from_their_bound();

  // --- Methods ---
  void work_on(Batch batch, const Task& task);
  void propose(Batch batch, const Row& row);
  void improve(Batch batch, const Row& row);
  void anneal(Batch batch, const Row& row);
  void raise(Batch batch, const Row& row);
  bool are_too_many(const Worked& worked);
  bool are_too_many_to_prove(const Worked& worked);
  bool has_limit_or_too_many(const Worked& worked) {
    return !has_no_limit() || are_too_many(worked);
  }
  void climb(Batch batch, const Row& row);
  void walk(Batch batch, const Row& row);
  void narrow(ColumnBranch& branch);
  void judge(ColumnBranch& branch, ColumnFindings findings);
  void judge(ColumnBranch& branch, FastClock& clock, Layout layout);
  static void keep_latest(ColumnBranch& branch, std::vector<Layout> layouts);
  void make_latest_fit(const Branches& branches, std::int64_t parts);
  void let_go_of_closed();

  // --- Proofs ---
  void prove_lowest();
  void prove_cases(const Branches& batch);
  static std::vector<ColumnBranch> take_cases(const Branches& batch, std::size_t most,
                                              Branches& wholes);

  const Space& space_;
  const SearchControl& control_;
  Judge& judge_;
  ColumnBounds bounds_;
  SpaceWorkers& workers_;
  std::vector<ColumnBranch> branches_;
  std::int64_t given_ = 0;       ///< effort at the beginning
  bool may_prove_ = true;        ///< the effort suffices to raise all bounds
  std::size_t closed_ = 0;       ///< branches that were closed and removed
  Time closed_least_ = never;    ///< lowest bound of those
  std::string closed_rests_on_;  ///< source of `closed_least_`; empty for a formula
  std::function<void()> report_;
};

}  // namespace stagecraft
