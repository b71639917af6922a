// The search among plans of equal columns: for clusters with too many devices to try every number
// of replicas of every stage.
//
// A plan of columns is a pipeline of some depth, copied until the devices are used up. Every pair
// of columns and depth, with every schedule and microbatch, is a branch of its own, and has a bound
// that takes no time (planner/relaxations/work_bound.hpp).
//
// 1. As long as nothing fits, every branch first asks whether its memory can hold anything. Every
//    branch whose bound is below the best plan raises it by whole blocks
//    (planner/relaxations/block_packing.hpp), and if it is still below, proposes balanced
//    pipelines that fit.
// 2. The best few are improved, cut by cut.
// 3. Those still below the best plan raise their bound by paths
//    (planner/relaxations/path_bound.hpp, and planner/relaxations/block_bound.hpp where layers
//    are blocks), three rounds, then thirty, then more. What they come across is tried. Where they
//    are far too many for that, the bound cannot rise, and the most promising are improved alone.
//    Where layers are not blocks, what paths leave is walked through
//    (planner/relaxations/path_walk.hpp), first where stages are few.
// 4. Those that promise most are annealed. Then those still below the best plan, of blocks, prove
//    that nothing is within a part of its time: a small part, then larger ones, in the end all of
//    it. Of those that are left, those that promise most are annealed.
// 5. Those still below it are improved; those with one stage per device also raise their bound by
//    bisection (planner/relaxations/chain_bounds.hpp).
// 6. The remaining effort is spent on the lowest bound, by walks and proofs: it determines the gap.
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

/// Whether there are too many layouts of the setting to walk through them, or quite some of which
/// columns know more.
bool is_wide(const Space& space, const Setting& setting);

class ColumnSearch {
 public:
  ColumnSearch(const Space& space, const SearchControl& control, Judge& judge,
               SpaceWorkers& workers);

  /// Columns of this setting are to be searched.
  void add(const Setting& setting);
  /// `report` is called now and then.
  void search(std::function<void()> report);
  /// Where layers choose for themselves what they do again: raises bounds by paths, the lowest
  /// first, and makes fit what comes up.
  void search_layers_again(std::function<void()> report);

  /// See `ColumnBounds`.
  Time least_of_all(const Setting& setting) { return bounds_.least_of_all(setting); }
  /// No plan of columns is faster, but for those already judged.
  Time least() const;
  /// What that bound rests on, and of which plans it is; empty if they are done with.
  std::string rests_on() const;
  /// Branches, and those that are done.
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
  /// Does something to one branch.
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
  /// And plans are known.
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

  // --- What is done to them ---
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
  std::int64_t given_ = 0;       ///< of the effort
  bool may_prove_ = true;        ///< there is effort to raise all bounds
  std::size_t closed_ = 0;       ///< that were done with and let go
  Time closed_least_ = never;    ///< of them
  std::string closed_rests_on_;  ///< that, where more than a formula raised it
  std::function<void()> report_;
};

}  // namespace stagecraft
