// The step time of a layout without making its program: the simulator's recurrence, chunk by chunk,
// over prefix sums.
//
// It leaves out what it cannot know the order of (replicas or copies that take turns; where
// backwards are split and layers recompute by themselves, ties among a device's other collectives),
// so it is never above `simulate` and almost always equal to it; the search simulates only what
// this clock cannot rule out. Costs O(devices x microbatches), a few microseconds.

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

  /// Nothing if the schedule refuses this many pipeline devices (or replicas).
  const TimedOrder* order_for(const std::vector<int>& replicas);

  /// Never more than the simulated step.
  std::int64_t step(const Layout& layout);

  /// Whether the device's memory could suffice: false only if the simulated peak is above the
  /// limit.
  bool may_fit(const Layout& layout, int pipeline_device);
  /// By how many bytes the device exceeds its memory, at least; below zero where some may be left.
  Bytes bytes_over(const Layout& layout, int pipeline_device);
  /// So many bytes of each pipeline device are taken by what `may_fit` does not count (messages
  /// that wait for their turn): for searches that have simulated a layout. Bounds know nothing of
  /// it.
  void keep_free(std::vector<Bytes> bytes) { kept_free_ = std::move(bytes); }

 private:
  struct Chunk {
    int device = 0;
    Time forward = 0, backward = 0, backward_input = 0, backward_weight = 0;
    Time recompute = 0, update = 0;
    Time last_backward = 0;
    int place = -1;  ///< of its last backward, in the order in which instructions are timed
  };
  struct Channel {
    int to = 0;  ///< chunk
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
  /// A sum over the replicas of a stage, or over those of two stages that are tied.
  struct Sum {
    std::int64_t start = 0;    ///< in lowering's nominal run
    const Tie* tie = nullptr;  ///< else of one stage
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
  /// What a replica of a pipeline device keeps.
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
  std::vector<Bytes> kept_free_;  ///< per pipeline device; empty: nothing

  std::vector<Chunk> chunks_;
  std::vector<int> first_chunk_;                ///< per stage, and the end
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
/// As lowering rounds it.
Bytes share_of_boundary(Bytes boundary, std::int64_t rows, std::int64_t all);
/// The rows of one replica.
std::int64_t share_of_rows(const Setting& setting, int replica, int replicas);

/// Forwards and backwards of the layout, on all devices.
std::int64_t instructions_of(const Setting& setting, const Layout& layout);

/// By how much the fullest replica of each pipeline device is over its limit, of a plan of the
/// setting.
std::vector<Bytes> bytes_over(const Setting& setting, const Candidate& candidate);

}  // namespace stagecraft
