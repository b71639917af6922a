// The step time of a layout without making its program: the simulator's recurrence, chunk by chunk,
// over prefix sums.
//
// It leaves out waits whose order it does not know (round-robin replicas or copies; tied weights
// among a device's other collectives, if backwards are split and layers recompute on their own). So
// it is never above `simulate` and almost always equal to it, and the search simulates only plans
// that this clock does not rule out. Costs O(devices x microbatches), a few microseconds.

#pragma once

#include <map>
#include <utility>
#include <vector>

#include "planner/costs/exposed_sums.hpp"
#include "planner/space/effort.hpp"
#include "planner/space/space.hpp"
#include "planner/timing/timed_order.hpp"

namespace stagecraft {

class FastClock {
 public:
  FastClock(const Space& space, const Setting& setting);
  const Space& space() const { return space_; }

  /// The order in which instructions are timed; null if the schedule does not accept this many
  /// pipeline devices (or replicas).
  const TimedOrder* order_for(const std::vector<int>& replicas);

  /// The step in nanoseconds; never more than the simulated step.
  std::int64_t step(const Layout& layout);

  /// Whether the layout may fit on the device: false only if the simulated peak is above the limit.
  bool may_fit(const Layout& layout, int pipeline_device);
  /// Lower bound on the bytes by which the device exceeds its memory; negative if memory may be
  /// left.
  Bytes bytes_over(const Layout& layout, int pipeline_device);
  /// Reserves bytes on each pipeline device for memory that `may_fit` does not count (queued
  /// messages), after a simulation has shown that they are needed. Relaxations do not use this
  /// headroom.
  void keep_free(std::vector<Bytes> bytes) { kept_free_ = std::move(bytes); }

 private:
  struct Chunk {
    int device = 0;
    Time forward = 0, backward = 0, backward_input = 0, backward_weight = 0;
    Time recompute = 0, update = 0;
    Time last_backward = 0;
    int place = -1;  ///< position of its last backward in the timed order
  };
  struct Channel {
    int to = 0;  ///< receiving chunk
    Time latency = 0, occupancy = 0, free = 0;
  };
  /// The chunks of one stage, [first, end).
  struct Replicas {
    int first = 0;
    int end = 0;
    int count() const { return end - first; }
    std::vector<int> list() const;
  };

  std::optional<TimedOrder> make_order(const std::vector<int>& replicas) const;
  Replicas replicas_of(int stage) const;
  const CostTable& table_of(int chunk, std::int64_t rows) const;
  void place(const Layout& layout, const TimedOrder& timed);
  void connect(const Layout& layout);
  void connect(int from, int to, std::int64_t rows, Bytes boundary);
  void run(const TimedOrder& timed);
  void perform(const Instruction& instruction, int chunk);
  void hand_on(std::vector<Channel>& channels, const Instruction& instruction, Time when);
  Time finish(const Layout& layout);
  std::vector<Time> reduced(const Layout& layout);
  /// A sum of gradients over the replicas of a stage, or over those of two tied stages.
  struct Sum {
    std::int64_t start = 0;    ///< start in lowering's nominal run
    const Tie* tie = nullptr;  ///< null: the sum of one stage
    int stage = 0, user = 0;
  };
  std::vector<Sum> sums_in_turn(const Layout& layout) const;
  std::vector<std::int64_t> nominal_ends(const Layout& layout) const;
  bool knows_turns_of_ties(const Layout& layout) const;
  bool is_summed(const Layout& layout, int stage) const;
  void sum_stage(const Layout& layout, int stage, std::vector<Time>& complete);
  void sum_tied(const Layout& layout, const Sum& sum, std::vector<Time>& complete);
  void join(int owner, int user, std::vector<Time>& complete) const;
  std::vector<int> by_completion() const;
  std::vector<int> devices_of(const std::vector<int>& members) const;
  const StageGroups& groups_of(const std::vector<int>& members) const;
  static void meet(const std::vector<int>& members, Duration time, std::vector<Time>& come);
  void wait_in_turn(const std::vector<int>& members, std::vector<Time>& come) const;
  void meet_in_turn(const std::vector<int>& members, Duration time, std::vector<Time>& come);
  void collect(const Layout& layout, std::vector<Time>& updated);
  /// The memory of one replica of a pipeline device.
  struct Held {
    Bytes usable = 0;
    std::vector<ChunkMemory> stages;
    std::vector<Recompute> recompute;
    std::vector<char> computes;
    Bytes at(const FullMoment& moment) const;
  };
  Held held_by(const Layout& layout, const TimedOrder& timed, int pipeline_device,
               int replica) const;
  bool may_fit(const Layout& layout, const TimedOrder& timed, int pipeline_device,
               int replica) const;

  const Space& space_;
  const Setting& setting_;
  bool split_ = true;  ///< replicas share each microbatch
  /// Whether a device's collectives and updates come in the order of its stages' last backwards.
  bool in_turn_ = true;
  ExposedSums sums_;
  std::map<std::vector<int>, std::optional<TimedOrder>> orders_;
  std::vector<Bytes> kept_free_;  ///< reserved bytes per pipeline device; empty: none

  std::vector<Chunk> chunks_;
  std::vector<int> first_chunk_;                ///< first chunk per stage, then the number of
                                                ///< chunks
  std::vector<std::vector<Channel>> forward_;   ///< per chunk, to the next stage's
  std::vector<std::vector<Channel>> backward_;  ///< per chunk, to the previous stage's
  std::vector<Time> ready_forward_;             ///< [chunk x microbatches + microbatch]
  std::vector<Time> ready_backward_;
  std::vector<Time> free_;              ///< per device
  std::vector<Time> collectives_free_;  ///< per device
};

/// The message from one replica to another of the next stage, in one direction.
struct Message {
  std::int64_t latency = 0;
  std::int64_t occupancy = 0;
};
Message message(const Space& space, const Setting& setting, int from, int to, Bytes bytes);
/// Rows that replica i of `of_i` and replica j of `of_j` share of `rows`.
std::int64_t common_rows(std::int64_t rows, int i, int of_i, int j, int of_j);
/// The share of a boundary's bytes for these rows, rounded as in lowering.
Bytes share_of_boundary(Bytes boundary, std::int64_t rows, std::int64_t all);
/// The rows of one replica.
std::int64_t share_of_rows(const Setting& setting, int replica, int replicas);

/// Number of forwards and backwards of the layout, over all devices.
std::int64_t instructions_of(const Setting& setting, const Layout& layout);

/// Per pipeline device, the bytes by which its fullest replica exceeds the limit, for a simulated
/// plan of the setting.
std::vector<Bytes> bytes_over(const Setting& setting, const Candidate& candidate);

}  // namespace stagecraft
