// Lower bounds for pipelines that are copied, in no time: of a setting of columns
// (planner/space/space.hpp), before anybody has cut its layers.
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
//                                     is cheapest; or leave it in part, and add that part's

#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/relaxations/stage_bounds.hpp"

namespace stagecraft {

class ColumnBounds {
 public:
  explicit ColumnBounds(const Space& space) : space_(space) {}

  /// No plan of this setting of columns that fits is faster; `never` if it cannot hold its
  /// parameters.
  Time bound(const Setting& setting);
  /// No plan of a setting without columns is faster, whatever replicas its stages have: its work,
  /// spread over all devices. r replicas of a layer occupy as many devices for as long as the
  /// largest share takes one.
  Time least_of_all(const Setting& setting);
  /// No plan of the problem's microbatches and degrees is faster, whatever layers its stages hold
  /// on whatever devices, each stage with a degree of its own: the work, where every layer has the
  /// degree and the replicas that make it least. 0 for plans without a flush.
  Time least_of_any_kind();
  /// What each layer occupies devices for at least, for one microbatch: of all its replicas.
  std::vector<Time> least_by_layer(const Setting& setting) const;

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
    /// What is done again, and what a layer saves less for it times how long, cheapest first.
    std::vector<std::pair<double, double>> kept;
    double all_kept = 0;
  };

  const Work& work(const Setting& setting);
  void add_memory(Work& work, const std::vector<const CostTable*>& tables) const;
  void add_again(Work& work, const std::vector<const CostTable*>& tables, int layer, double saved,
                 double behind) const;
  static void add_packing(Work& work, const std::vector<Time>& layers);
  static Time packing(const Work& work, int devices);
  static double taper_bound(const Setting& setting, const Work& work);
  double room(const Setting& setting) const;
  double memory_bound(const Setting& setting, const Work& work) const;

  const Space& space_;
  std::map<std::tuple<int, int, std::int64_t, std::int64_t>, Work> works_;
  /// What `least_by_layer` comes to, by all that it asks of a setting.
  std::map<std::tuple<int, int, std::int64_t, std::int64_t, int, int, int, bool, bool>, Time> sums_;
};

}  // namespace stagecraft
