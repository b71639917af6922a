// Bounds of a stage: how fast a plan could be at best, known from one of its stages and from what
// its neighbours take at least. The exact search rests on them;
// planner/relaxations/chain_bounds.hpp puts those of all stages together.
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
// Under GPipe it idles longer. The last stage goes forward m times before it goes back, and each
// way is as long as the longest of all stages makes it, of f and of g:
//
//   T  >=  H  +  f + D + g  +  (m-1) max f  +  (m-1) max g  +  max(post, A, R + tie)
//
// where stages in front of s, which may be the longest on the way back, are seen by R alone.
//
// For equal stages the bound is exact, (m + p - 1)(f + g), on every device at once; with transfers
// it grows by 2c per microbatch, as 1F1B does.
//
// Split backwards (ZB-H1 and ZB-H2): g is the input gradient's part; the weight gradient w of a
// microbatch is no part of anybody's round trip, fills what a device idles, and lags behind by so
// many microbatches that l of them are left when its last g has ended:
//
//   T  >=  H  +  m (f + g) + (m - l) w  +  gaps  +  max(l w + post, A, R + tie)
//
// Between F k and B k the device has no more W to do than B; with g + w in place of g the gaps are
// those of above. A(s+1) has l(s) w(s) + post(s) in place of post(s). What is known of l is how
// many devices are in front: a stage has at least one.
//
// Replicas. Under `split`, f and g are of the replica's rows. Under `round_robin`, a replica has
// ceil(m/r) microbatches and a window of ceil(K/r); later ones in turn up to one less. Under GPipe,
// the first microbatch of all goes back when that replica of the last stage has gone forward with
// the last of its own, j: which came after floor(j/r) others on each stage. Where
// replicas differ (rows, device kinds), chains take the least over replicas, transfers the least
// over receivers of the slowest sender each needs, and a device's own load the most over replicas.

#pragma once

#include <optional>
#include <vector>

#include "planner/timing/fast_clock.hpp"

namespace stagecraft {

/// Idle time of a device with D behind it; see above.
Time round_trip_gaps(Time forward, Time backward, Time round_trip, int window, int microbatches);

/// What a stage of GPipe does after the first microbatch, before those that later stages or, on the
/// way back, earlier ones wait for. Nothing under other schedules.
struct OtherPasses {
  Time forward = 0, backward = 0;
  void lower_to(const OtherPasses& other);
};

/// Of each way the longer one.
OtherPasses most_of(const OtherPasses& a, const OtherPasses& b);

/// What is known when a stage begins: time until its first forward can start, the same plus the
/// drain after it.
struct Head {
  Time fill = never;
  Time fill_and_drain = never;
  Time fill_and_return = never;         ///< the same without what follows a last backward
  OtherPasses others = {never, never};  ///< the most of these stages
};

/// The stages behind one, at their best.
struct Beyond {
  Time round_trip = never;  ///< transfers included; never if nothing is within the limit
  Time tie = 0;             ///< of the first stage and the last one
  int last_replicas = 0;    ///< of the last stage, at most; 0: not known
  OtherPasses others;       ///< the most of these stages
};

/// How a stage would be set up, and what that costs its neighbours.
struct StageChoice {
  Recompute recompute = Recompute::none;
  Time fill = 0;   ///< least forward over replicas
  Time drain = 0;  ///< least recomputation and backward, or its input gradient's part
  Time left = 0;   ///< least weight gradients that are left when the last of those has ended
  Time post = 0;
  OtherPasses others;
};

/// Whether `StageBounds` knows plans of this setting: one stage per device, under GPipe, 1F1B,
/// ZB-H1 or ZB-H2.
bool has_chain_bounds(const Setting& setting);

/// Both ways between two stages.
struct HandOver {
  Time there = 0, back = 0;
};

/// Bounds on plans of one setting with one stage per device.
class StageBounds {
 public:
  /// Other stages may be of `finest` replicas where this setting has one
  /// (planner/relaxations/chain_bounds.hpp).
  StageBounds(const Space& space, const Setting& setting, int finest = 1);

  int most_stages() const { return most_stages_; }
  int most_replicas() const { return most_replicas_; }

  static Head start() { return {0, long_ago, 0, {}}; }
  /// Nothing if it cannot fit with `stages_left` stages from here to the end, itself included.
  std::optional<StageChoice> choose(const LayerRange& layers, int device, int replicas,
                                    int stages_left) const;
  /// A lower bound on the step of any plan with this stage.
  Time bound(const Head& head, const StageChoice& choice, const LayerRange& layers, int device,
             int replicas, int stages_left, const Beyond& beyond) const;
  /// Whether this stage, and any longer one from the same layer, is beyond the limit by its load
  /// alone.
  bool is_too_long(const Head& head, const LayerRange& layers, int device, int replicas,
                   Time limit) const;
  /// Whether the stage, of which `choose` knows nothing, and any longer one from the same layer are
  /// beyond their devices' memory.
  bool is_too_large(const LayerRange& layers, int device, int replicas) const;
  /// What the stage does after the first microbatch, if the last stage has at most so many
  /// replicas.
  OtherPasses others(const StageChoice& choice, int replicas, int last_replicas) const;
  /// A microbatch between this stage and one of `next_replicas` behind it, at least.
  HandOver transfer(int device, int replicas, int next_replicas, int cut) const;
  /// A tie of the first stage with this one; zero if it is not behind the one that begins the
  /// model.
  Time end_tie(int device, int replicas) const;

 private:
  /// A microbatch on one replica.
  struct Pass {
    Time forward = 0;
    Time backward = 0;  ///< with recomputation, without `weight`
    Time weight = 0;    ///< where backwards are split
    Time whole() const { return forward + backward + weight; }
  };
  /// Replicas alike; of those that take turns the first has the most microbatches.
  struct Share {
    const CostTable* table = nullptr;
    Bytes limit = 0;
    int replica = 0;  ///< the first of them
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
  bool splits_ = false;                 ///< backwards
  int lead_ = 1;                        ///< times as far ahead as 1F1B: two of ZB-H2
  bool window_counts_devices_ = false;  ///< see Space::plan: 1F1B whose replicas take turns
  std::vector<int> warm_up_;
  /// By the most replicas of the last stage: the last microbatch of its first replica, at least.
  std::vector<int> last_forward_;

  mutable ExposedSums sums_;
  mutable std::vector<std::vector<Share>> shares_;  ///< [device, replicas]
  mutable std::vector<HandOver> transfers_;   ///< [layer, device, replicas, next]; -1: not yet
  std::vector<std::vector<Time>> tie_times_;  ///< [tie][device, replicas]: with any later device
  std::vector<Time> end_ties_;                ///< [device, replicas]: with device 0
};

}  // namespace stagecraft
