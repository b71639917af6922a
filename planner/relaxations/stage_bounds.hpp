// Lower bounds on a plan's step from one of its stages and from lower bounds on its neighbours.
// planner/relaxations/chain_bounds.hpp combines those of all stages.
//
// One device. Take the stage on pipeline device s: forward f, recomputation and backward g for each
// of m microbatches, and K forwards before its first backward. GPipe and 1F1B both give
//
//   T  >=  H  +  m (f + g)  +  gaps  +  max(post, A, R + tie)
//
//   H     fill: the first microbatch must pass the stages before s, and their transfers c:
//           H(s+1) = H(s) + f(s) + c
//   A     drain: after the last backward of s, those stages still have theirs to do:
//           A(s+1) = c' + g(s) + max(post(s), A(s))
//   post  sum of gradients over replicas, a tie to a later stage at its least, the update, and
//         where the optimizer is sharded the parameters collected
//   R     drain without posts, down to stage 0: what a tie of stage 0 and the last stage waits for
//   gaps  what the device idles because of D, the round trip of a microbatch through all later
//         stages: B k cannot start before F k has ended and D has passed.
//           D(s) = c + f(s+1) + D(s+1) + g(s+1) + c'
//
//   device   F0 F1 F2 . . . B0 F3 B1 F4 B2 F5 B3 . B4 . B5         K = 3, m = 6
//               \_____D____/            \_____D____/
//
// Between F k and B k the device has only K-1 forwards to do at the beginning, K-1 backwards at the
// end, and both in between; the rest of D is idle. Such stretches, for k, k + K, k + 2K, …, do not
// overlap, so what is idle adds up:
//
//   m > K:   max(0, D - (K-1)f) + max(0, D - (K-1)g) + floor((m-1)/K - 1) max(0, D - (K-1)(f+g))
//   m <= K:  max(0, D - (m-1) min(f, g))                       all forwards first
//
// Under GPipe the device idles longer. The last stage runs all m forwards before its first
// backward, and each phase is as long as the slowest stage makes it, in f and in g:
//
//   T  >=  H  +  f + D + g  +  (m-1) max f  +  (m-1) max g  +  max(post, A, R + tie)
//
// where stages in front of s, which may be the slowest in the backward phase, only count in R.
//
// For equal stages the bound is exact, (m + p - 1)(f + g), on every device at once; with transfers
// it grows by 2c per microbatch, as 1F1B does.
//
// Split backwards (ZB-H1 and ZB-H2): g is the input gradient alone. The weight gradient w of a
// microbatch is in no round trip and fills idle time; it lags behind, so that l weight gradients
// are left when the device's last g has ended:
//
//   T  >=  H  +  m (f + g) + (m - l) w  +  gaps  +  max(l w + post, A, R + tie)
//
// Between F k and B k the device has at most as many W as B to do, so the gaps are those above with
// g + w in place of g. A(s+1) has l(s) w(s) + post(s) in place of post(s). l is bounded by the
// number of devices in front; it is at least one.
//
// Replicas. Under `split`, f and g are those of the replica's rows. Under `round_robin`, a replica
// has ceil(m/r) microbatches and a window of ceil(K/r); a later replica may have one less of each.
// Under GPipe, the first backward of all starts on the last stage's first replica once that has run
// the forward of its own last microbatch j, which came after floor(j/r) others on each stage of r
// replicas. If replicas differ (rows, device kinds), chains take the minimum over replicas,
// transfers the minimum over receivers of the slowest sender each needs, and a device's own load
// the maximum over replicas.

#pragma once

#include <optional>
#include <vector>

#include "planner/timing/fast_clock.hpp"

namespace stagecraft {

/// Idle time of a device with round trip D behind it; see above.
Time round_trip_gaps(Time forward, Time backward, Time round_trip, int window, int microbatches);

/// GPipe only: time of a stage's other forwards (backwards) between the first microbatch and the
/// last one that later (earlier) stages wait for. Zero under other schedules.
struct OtherPasses {
  Time forward = 0, backward = 0;
  void lower_to(const OtherPasses& other);
};

/// The maximum of forwards and of backwards.
OtherPasses most_of(const OtherPasses& a, const OtherPasses& b);

/// Lower bounds from the stages in front of a stage: time until its first forward can start, and
/// that plus the drain.
struct Head {
  Time fill = never;
  Time fill_and_drain = never;
  Time fill_and_return = never;         ///< fill plus drain without the work after the last
                                        ///< backward
  OtherPasses others = {never, never};  ///< maximum over these stages
};

/// Lower bounds from the stages behind a stage.
struct Beyond {
  Time round_trip = never;  ///< with transfers; `never` if no stages are within the limit
  Time tie = 0;             ///< tied weights of the first and the last stage
  int last_replicas = 0;    ///< upper bound on the last stage's replicas; 0: unknown
  OtherPasses others;       ///< maximum over these stages
};

/// A stage's recomputation, and the times that its neighbours see.
struct StageChoice {
  Recompute recompute = Recompute::none;
  Time fill = 0;   ///< least forward over replicas
  Time drain = 0;  ///< least recomputation and backward, or its input gradient's part
  Time left = 0;   ///< least weight gradients left when its last input gradient has ended
  Time post = 0;
  OtherPasses others;
};

/// Whether `StageBounds` supports the setting: one stage per device, under GPipe, 1F1B, ZB-H1 or
/// ZB-H2.
bool has_chain_bounds(const Setting& setting);

/// Times of the messages between two stages, forward (`there`) and backward (`back`).
struct HandOver {
  Time there = 0, back = 0;
};

/// Bounds on plans of one setting with one stage per device.
class StageBounds {
 public:
  /// Other stages may have `finest` replicas on the devices of one replica of this setting
  /// (planner/relaxations/chain_bounds.hpp).
  StageBounds(const Space& space, const Setting& setting, int finest = 1);

  int most_stages() const { return most_stages_; }
  int most_replicas() const { return most_replicas_; }

  static Head start() { return {0, long_ago, 0, {}}; }
  /// The choice of least recomputation for the stage. Nothing if the stage cannot fit;
  /// `stages_left` counts the stages to the end, itself included.
  std::optional<StageChoice> choose(const LayerRange& layers, int device, int replicas,
                                    int stages_left) const;
  /// A lower bound on the step of any plan with this stage.
  Time bound(const Head& head, const StageChoice& choice, const LayerRange& layers, int device,
             int replicas, int stages_left, const Beyond& beyond) const;
  /// Whether the load alone of this stage, and so of any longer one from the same layer, exceeds
  /// the limit.
  bool is_too_long(const Head& head, const LayerRange& layers, int device, int replicas,
                   Time limit) const;
  /// Whether this stage, for which `choose` found nothing, and any longer one from the same layer
  /// exceed memory.
  bool is_too_large(const LayerRange& layers, int device, int replicas) const;
  /// The stage's `OtherPasses`, if the last stage has at most `last_replicas` replicas.
  OtherPasses others(const StageChoice& choice, int replicas, int last_replicas) const;
  /// Lower bound on the messages of a microbatch between this stage and one of `next_replicas`
  /// replicas behind it.
  HandOver transfer(int device, int replicas, int next_replicas, int cut) const;
  /// Time of the tied weights of the first stage with this one; zero if this is the first stage.
  Time end_tie(int device, int replicas) const;

 private:
  /// Times of a microbatch on one replica.
  struct Pass {
    Time forward = 0;
    Time backward = 0;  ///< includes recomputation, excludes `weight`
    Time weight = 0;    ///< weight gradient, if backwards are split
    Time whole() const { return forward + backward + weight; }
  };
  /// A group of replicas with equal costs. Of round-robin replicas, the first one has the most
  /// microbatches.
  struct Share {
    const CostTable* table = nullptr;
    Bytes limit = 0;
    int replica = 0;  ///< first replica of the group
  };

  std::size_t at(int layer, int device, int replicas) const;
  const std::vector<Share>& shares(int device, int replicas) const;
  HandOver slowest_needed(int device, int replicas, int next_replicas, Bytes boundary) const;
  int window(int stages_left, int device, int replicas) const;
  int in_flight(int stages_left, int replicas, int replica) const;
  int own_microbatches(int replicas, int replica) const;
  Pass pass(const CostTable& table, const LayerRange& layers, Recompute recompute) const;
  Time bound_of_ways(const Head& head, const StageChoice& choice, int replicas,
                     const Beyond& beyond) const;
  int most_last_replicas(int device, int replicas, int stages_left) const;
  int least_left(int device, int replicas) const;
  int most_left(int device, int replicas, int microbatches) const;
  ChunkMemory memory_of(const Share& share, const LayerRange& layers, int replicas) const;
  bool may_fit(const Share& share, const LayerRange& layers, int device, int replicas,
               Recompute recompute, int in_flight) const;
  Time post(const LayerRange& layers, int device, int replicas) const;
  Time tied(const LayerRange& layers, int device, int replicas) const;
  void time_ties();
  void list_last_forwards();
  Time tie_with(int other, int device, int replicas, Bytes bytes) const;

  const Space& space_;
  const Setting& setting_;
  int finest_ = 1;
  int layers_ = 0, devices_ = 0, most_stages_ = 0, most_replicas_ = 1;
  bool all_forwards_first_ = false;
  bool splits_ = false;                 ///< backwards are split
  int lead_ = 1;                        ///< warm-up as a multiple of 1F1B's: 2 for ZB-H2
  bool window_counts_devices_ = false;  ///< 1F1B with round-robin replicas (see Space::plan)
  std::vector<int> warm_up_;
  /// By the last stage's maximum number of replicas: lower bound on the last microbatch of its
  /// first replica.
  std::vector<int> last_forward_;

  mutable ExposedSums sums_;
  mutable std::vector<std::vector<Share>> shares_;  ///< [device, replicas]
  mutable std::vector<HandOver> transfers_;   ///< [layer, device, replicas, next]; -1: not computed
                                              ///< yet
  std::vector<std::vector<Time>> tie_times_;  ///< [tie][device, replicas]: tie with the nearest
                                              ///< later device
  std::vector<Time> end_ties_;                ///< [device, replicas]: tie with device 0
};

}  // namespace stagecraft
