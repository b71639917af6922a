// The search among plans of equal columns: for clusters with too many devices to try every number
// of replicas of every stage.
//
// A plan of columns is a pipeline of some depth, copied until the devices are used up. Every pair
// of columns and depth, with every schedule and microbatch, is a branch of its own, and has a bound
// that takes no time (planner/relaxations/work_bound.hpp).
//
// 1. Every branch whose bound is below the best plan raises it by whole blocks
//    (planner/relaxations/block_packing.hpp), and if it is still below, proposes balanced
//    pipelines that fit.
// 2. The best few are improved, cut by cut.
// 3. Those still below the best plan raise their bound by paths
//    (planner/relaxations/path_bound.hpp, and planner/relaxations/block_bound.hpp where layers
//    are blocks), three rounds, then thirty, then more. What they come across is tried.
//    Where layers are not blocks, what paths leave is walked through
//    (planner/relaxations/path_walk.hpp), first where stages are few.
// 4. Those that promise most are annealed. Then those still below the best plan, of blocks, prove
//    that nothing is within a part of its time: a small part, then larger ones, in the end all of
//    it. Of those that are left, those that promise most are annealed.
// 5. Those still below it are improved; those with one stage per device also raise their bound by
//    bisection (planner/relaxations/chain_bounds.hpp).
// 6. The remaining effort is spent on the lowest bound, by walks and proofs: it determines the gap.
//
// Branches are worked on in batches, side by side: each for the limit there was before its batch,
// and what is found is judged after it, in order. So the answer does not depend on the number of
// threads.

#pragma once

#include <functional>
#include <optional>
#include <stop_token>
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
  void search(const std::function<void()>& report);
  /// Where layers choose for themselves what they do again: raises bounds by paths, the lowest
  /// first, and makes fit what comes up.
  void search_layers_again(const std::function<void()>& report);

  /// See `ColumnBounds`.
  Time least_of_all(const Setting& setting) { return bounds_.least_of_all(setting); }
  /// No plan of columns is faster, but for those already judged.
  Time least() const;
  /// What that bound rests on, and of which plans it is; empty if they are done with.
  std::string rests_on() const;
  /// Branches, and those that are done.
  std::size_t branches() const { return branches_.size() + closed_; }
  std::size_t done() const;

 private:
  /// Does something to one branch.
  using Task = std::function<void(ColumnWork& work)>;

  bool is_open(const ColumnBranch& branch) const;
  bool stops() const { return judge_.stopped() || judge_.is_spent(); }
  bool is_enough() const { return stops() || gap() <= control_.gap; }
  double gap() const;
  std::vector<ColumnBranch*> open_branches();
  std::vector<ColumnBranch*> open_by_least();
  /// The next so many that are open, from `next` on.
  std::vector<ColumnBranch*> next_batch(const std::vector<ColumnBranch*>& branches,
                                        std::size_t& next, std::size_t size) const;
  void work_on(const std::vector<ColumnBranch*>& batch, const Task& task);
  void judge(ColumnBranch& branch, ColumnFindings findings);
  void judge(ColumnBranch& branch, FastClock& clock, Layout layout);
  static void keep_latest(ColumnBranch& branch, std::vector<Layout> layouts);
  void make_latest_fit(const std::vector<ColumnBranch*>& branches, std::int64_t parts);
  void let_go_of_closed();
  void propose_all(const std::function<void()>& report);
  void raise_all(int rounds, const std::function<void()>& report);
  void walk_all(int rounds, std::int64_t parts, int most_stages,
                const std::function<void()>& report);
  void anneal_all(std::size_t most, const std::function<void()>& report);
  void climb_all(const std::function<void()>& report);
  void improve_all(const std::vector<ColumnBranch*>& branches, std::int64_t share,
                   const std::function<void()>& report);
  void narrow(ColumnBranch& branch);

  // --- Proofs ---
  void prove_lowest(const std::function<void()>& report);
  void prove_cases(const std::vector<ColumnBranch*>& batch, const std::function<void()>& report);
  static std::vector<ColumnBranch> take_cases(const std::vector<ColumnBranch*>& batch,
                                              std::size_t most, std::vector<ColumnBranch*>& wholes);

  const Space& space_;
  const SearchControl& control_;
  Judge& judge_;
  ColumnBounds bounds_;
  SpaceWorkers& workers_;
  std::vector<ColumnBranch> branches_;
  std::size_t closed_ = 0;     ///< that were done with and let go
  Time closed_least_ = never;  ///< of them
};

}  // namespace stagecraft
