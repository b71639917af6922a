// Closed-form lower bounds for a setting of columns, identical pipeline replicas
// (planner/space/space.hpp), over all ways to cut the layers.
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

  /// Lower bound on the plans of this setting of columns that fit; `never` if the parameters alone
  /// do not fit.
  Time bound(const Setting& setting);
  /// Lower bound on the plans of a setting with any numbers of replicas: the work, spread over all
  /// devices. r replicas of a layer occupy r devices for the time of the largest share.
  Time least_of_all(const Setting& setting);
  /// Lower bound on all plans of the problem, with any layers and devices for each stage and
  /// different degrees: the work, with the cheapest degree and number of replicas for every layer.
  /// 0 for plans without a flush.
  Time least_of_any_kind();
  /// Least device time of each layer for one microbatch, summed over its replicas.
  std::vector<Time> least_by_layer(const Setting& setting) const;

 private:
  /// Least costs of the layers for one column's share of a microbatch.
  struct Work {
    Time all = 0;
    Time least_forward = never, least_backward = never;
    double forward_share = 1;                 ///< least share of the forward in forward and
                                              ///< backward
    std::vector<std::pair<Time, int>> heavy;  ///< (time, number of layers that take at least that)
    Time block = 0;                           ///< time of each of the `blocks` equal layers
    int blocks = 0;
    std::vector<Time> others;  ///< the longest of the rest, longest first
    /// Choices of recomputation: (extra time, saved bytes times the time they would be held),
    /// cheapest first.
    std::vector<std::pair<double, double>> kept;
    double all_kept = 0;
    double saved_once = 0;  ///< bytes of one microbatch, of layers that go back
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
  /// Results of `least_by_layer`, by the properties of a setting that they depend on.
  std::map<std::tuple<int, int, std::int64_t, std::int64_t, int, int, int, bool, bool>, Time> sums_;
};

}  // namespace stagecraft
