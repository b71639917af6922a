// The search among plans of equal columns: for clusters with too many devices to try every number
// of replicas of every stage.
//
// A plan of columns is a pipeline of some depth, copied until the devices are used up. Every pair
// of columns and depth, with every schedule and microbatch, is a branch of its own, and has a bound
// that takes no time:
//
//   work     m W / p                  W: forward and backward of a microbatch, all layers; p
//                                     devices
//   heavy    m ceil(n / p) w          n layers take w or more, and a layer has one device
//   packing  m C                      n layers take w each, and others x: a device with k = C / w
//                                     of the n has room for r = C - k w more. Those of the others
//                                     that are longer, X together, cost ceil(X / (r + w)) of the n
//                                     k p places; C is the least at which n remain
//   fill     (p - 1)/2 (f + b)        on average, a device waits for the layers before it, and they
//                                     for it at the end, unless weight gradients fill that time;
//                                     f and b are the least of a layer
//   taper    w W / (1 - (1 - w/m)^p)  with one stage per device, stages had best get smaller along
//                                     the pipeline: stage d is within T if w (u_0 + … + u_d-1) + m
//                                     u_d is, of which the best has equality everywhere. A stage
//                                     fills for the part w of its pass: 1, or the share of the
//                                     forward if weight gradients fill the drain
//   memory   m sum(saved r) / M       what a layer saves stays while a microbatch
//                                     is in the layers behind it, r; M is the memory that
//                                     parameters leave (Little's law). Layers that recompute leave
//                                     this sum and add their forward to the work: those where that
//                                     is cheapest
//
// 1. Every branch whose bound is below the best plan proposes balanced pipelines that fit.
// 2. The best few are improved, cut by cut.
// 3. Those still below the best plan raise their bound: by whole blocks (planner/block_packing.hpp)
//    and by paths (planner/path_bound.hpp), three rounds, then thirty, then more. What they come
//    across is tried.
// 4. Those still below it are improved; those with one stage per device also raise their bound by
//    bisection (planner/bounds.hpp).

#pragma once

#include <functional>
#include <map>
#include <vector>

#include "planner/judge.hpp"

namespace stagecraft {

/// Whether one stage per device follows another, under GPipe or 1F1B: what `ChainBounds` knows.
bool is_chain(const Setting& setting);

/// Whether there are too many devices and layers to walk through all layouts of the setting.
bool is_wide(const Space& space, const Setting& setting);

/// What people choose for large clusters, each as good as it gets: data parallelism, and even
/// splits of the layers, copied until all devices are used, with one to four samples per microbatch
/// and replica. Those that do not fit are left out, unless nothing of their name fits.
std::vector<Candidate> usual_columns(const Space& space);

class ColumnSearch {
 public:
  ColumnSearch(const Space& space, const SearchControl& control, Judge& judge);

  /// Columns of this setting, which outlives the search, are to be searched.
  void add(const Setting& setting);
  /// `report` is called now and then.
  void search(const std::function<void()>& report);

  /// No plan of a setting without columns is faster, whatever replicas its stages have: its work,
  /// spread over all devices. r replicas of a layer occupy as many devices for as long as the
  /// largest share takes one.
  Time least_of_all(const Setting& setting);
  /// No plan of columns is faster, but for those already judged.
  Time least() const;
  /// Branches, and those that are done.
  std::size_t branches() const { return branches_.size(); }
  std::size_t done() const;

 private:
  /// What layers take at least, of one column's share of a microbatch.
  struct Work {
    Time all = 0;
    Time least_forward = never, least_backward = never;
    double forward_share = 1;                 ///< of forward and backward, at the least
    std::vector<std::pair<Time, int>> heavy;  ///< so many layers take so much or more
    Time block = 0;                           ///< what `blocks` layers take each
    int blocks = 0;
    std::vector<Time> others;  ///< the longest of the rest, longest first
    /// Forward again, and what the layer saves times how long, cheapest recomputation first.
    std::vector<std::pair<double, double>> kept;
    double all_kept = 0;
  };
  struct Branch {
    Setting setting;
    Time least = 0;
    Time step = never;  ///< of its best layout so far, by the fast clock
    Layout layout;
    std::vector<int> most_layers;  ///< on each device; empty: not known
  };

  const Work& work(const Setting& setting);
  void add_memory(Work& work, const std::vector<const CostTable*>& tables) const;
  static void add_packing(Work& work, const std::vector<Time>& layers);
  static Time packing(const Work& work, int devices);
  static double taper_bound(const Setting& setting, const Work& work);
  double room(const Setting& setting) const;
  double memory_bound(const Setting& setting, const Work& work) const;
  Time bound(const Setting& setting);
  bool is_open(const Branch& branch) const;
  bool stops() const { return judge_.stopped() || judge_.is_spent(); }
  double gap() const;
  std::vector<Branch*> open_branches();
  std::vector<Layout> proposals(const Setting& setting, const std::vector<int>& replicas) const;
  void propose(Branch& branch);
  void consider(Branch& branch, FastClock& clock, const Layout& layout);
  void pack(Branch& branch);
  void raise(Branch& branch, int rounds);
  void improve(Branch& branch, std::int64_t most);
  void narrow(Branch& branch, FastClock& clock);

  const Space& space_;
  const SearchControl& control_;
  Judge& judge_;
  std::map<std::tuple<int, std::int64_t, std::int64_t>, Work> works_;
  std::vector<Branch> branches_;
};

}  // namespace stagecraft
