// Costs from a measured timeline: of layers, and of the links that its messages used.
//
//   timeline   F0.0 F0.1 B0.0 …   every step      a stage's forward: the mean of the middle half of
//      │ typical_time                             all its microbatches in all steps
//      │ split                                    its layers: in proportion to what they cost
//      before
//   profile    forward, backward, update per layer          links: latency + bytes / bandwidth
//
// A time counts from when the instruction could have begun, so that what a device does between
// instructions (posting, handing over) is part of it.

#pragma once

#include <string>
#include <vector>

#include "planner/costs/predict.hpp"
#include "simulator/values/measured_steps.hpp"

namespace stagecraft {

/// Instructions of one kind on one of the plan's stages.
struct InstructionTimes {
  int stage = 0;
  Op op = Op::forward;
  int count = 0;         ///< of those steps, over all replicas and copies of the model
  Duration before{0};    ///< as the plan was predicted with, the mean over replicas
  Duration measured{0};  ///< with the overhead
  Duration overhead{0};  ///< from when it could have begun until it did
  bool operator==(const InstructionTimes&) const = default;
};

/// Messages or collectives of one link, and the link that they fit.
struct LinkTimes {
  std::string what;  ///< "hand-over between ranks", "level 0 of the cluster", "link 0 -> 1"
  int count = 0;
  Bytes smallest = 0, largest = 0;  ///< moved by each
  Link before, after;
  bool operator==(const LinkTimes&) const = default;
};

struct TimelineCosts {
  Profile profile;                             ///< in the plan's order
  Cluster cluster;                             ///< differs only where its links were measured
  std::vector<InstructionTimes> instructions;  ///< by stage, then op
  std::vector<LinkTimes> links;
};

/// The profile and the cluster as these steps of the compiled plan measured them. Layers of entries
/// for other microbatch sizes of the same devices change by the same factors, and count as fitted.
/// Where backwards are not split, input and weight gradients change alike. A recomputation counts
/// as a forward. Throws Error (input) for a plan of pieces of sequences.
TimelineCosts costs_from_timeline(const Plan& plan, const Compiled& compiled,
                                  const Profile& profile, const Cluster& cluster,
                                  const std::vector<MeasuredStep>& steps);

/// The mean of the middle half of equal transfers' times, which is robust to outliers. Needs at
/// least one time.
Duration typical_time(std::vector<Duration> times);

/// `whole` in parts that are in proportion to `weights` (equal ones where all are zero) and add up
/// to it.
std::vector<Duration> split(Duration whole, const std::vector<Duration>& weights);

/// A transfer of `bytes` in `rounds` rounds that took `time`.
struct Transfer {
  int rounds = 1;
  Bytes bytes = 0;
  Duration time{0};
};

/// Latency of a round and bandwidth with the least squared relative error. Where all move equally
/// many bytes, or the latency is `fixed`, it keeps its latency (at most half of the time) and the
/// rest gives the bandwidth. (The alpha-beta model: Hockney 1994.)
struct LatencyAndBandwidth {
  Duration latency{0};
  Bandwidth bandwidth;
};
LatencyAndBandwidth fit_transfers(const std::vector<Transfer>& transfers,
                                  LatencyAndBandwidth before, bool fixed);

}  // namespace stagecraft
