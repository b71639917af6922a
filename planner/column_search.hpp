// The search among plans of equal columns: for clusters with too many devices to try every number
// of replicas of every stage.
//
// A plan of columns is a pipeline of some depth, copied until the devices are used up. Every pair
// of columns and depth, with every schedule and microbatch, is a branch of its own, and has a bound
// that takes no time (planner/column_bounds.hpp).
//
// 1. Every branch whose bound is below the best plan raises it by whole blocks
//    (planner/block_packing.hpp), and if it is still below, proposes balanced pipelines that fit.
// 2. The best few are improved, cut by cut.
// 3. Those still below the best plan raise their bound by paths (planner/path_bound.hpp), three
//    rounds, then thirty, then more. What they come across is tried.
// 4. Those still below it rule out how many blocks devices have, for the best plan's time and a
//    little less.
// 5. Those still below it are improved; those with one stage per device also raise their bound by
//    bisection (planner/bounds.hpp).

#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "planner/block_packing.hpp"
#include "planner/column_bounds.hpp"
#include "planner/judge.hpp"

namespace stagecraft {

/// Whether one stage per device follows another, under GPipe or 1F1B: what `ChainBounds` knows.
bool is_chain(const Setting& setting);

/// Whether there are too many devices and layers to walk through all layouts of the setting.
bool is_wide(const Space& space, const Setting& setting);

/// What people choose for large clusters, each as good as it gets: data parallelism, and even
/// splits of the layers, copied until all devices are used, with one to four samples per microbatch
/// and replica. Those that do not fit are left out, unless nothing of their name fits. Once a stop
/// is requested, those looked at by then, and at least one that fits if there is any.
std::vector<Candidate> usual_columns(const Space& space, const std::stop_token& stop);

class ColumnSearch {
 public:
  ColumnSearch(const Space& space, const SearchControl& control, Judge& judge);

  /// Columns of this setting, which outlives the search, are to be searched.
  void add(const Setting& setting);
  /// `report` is called now and then.
  void search(const std::function<void()>& report);

  /// See `ColumnBounds`.
  Time least_of_all(const Setting& setting) { return bounds_.least_of_all(setting); }
  /// No plan of columns is faster, but for those already judged.
  Time least() const;
  /// Branches, and those that are done.
  std::size_t branches() const { return branches_.size(); }
  std::size_t done() const;

 private:
  struct Branch {
    Setting setting;
    Time least = 0;
    Time step = never;  ///< of its best layout so far, by the fast clock
    Layout layout;
  };

  bool is_open(const Branch& branch) const;
  bool stops() const { return judge_.stopped() || judge_.is_spent(); }
  double gap() const;
  std::vector<Branch*> open_branches();
  std::vector<Layout> proposals(const Setting& setting, const std::vector<int>& replicas) const;
  void propose(Branch& branch);
  void consider(Branch& branch, FastClock& clock, const Layout& layout);
  std::optional<BlockPacking> pack(Branch& branch, FastClock& clock, const TimedOrder& order);
  void raise(Branch& branch, int rounds);
  void probe(Branch& branch, std::int64_t share);
  void probe_all(const std::function<void()>& report);
  void improve(Branch& branch, std::int64_t most);
  void narrow(Branch& branch, FastClock& clock);

  const Space& space_;
  const SearchControl& control_;
  Judge& judge_;
  ColumnBounds bounds_;
  std::vector<Branch> branches_;
};

}  // namespace stagecraft
