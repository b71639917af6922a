// The step time of a layout without making its program: the simulator's recurrence, chunk by chunk,
// over prefix sums.
//
// It leaves out that a device's collectives take turns, so it is never above `simulate` and almost
// always equal to it; the search simulates only what this clock cannot rule out. Costs O(devices x
// microbatches), a few microseconds.

#pragma once

#include <map>
#include <vector>

#include "planner/space.hpp"

namespace stagecraft {

/// A moment at which a device holds much: activations in flight per stage of the device, and the
/// stage whose B runs.
struct FullMoment {
  std::vector<int> in_flight;
  int turn = 0;  ///< which of the device's stages, in model order
};

/// One schedule in an order in which its instructions can be timed, and when its devices are full.
struct TimedOrder {
  std::vector<Instruction> order;
  std::vector<std::vector<FullMoment>>
      moments;  ///< per pipeline device; only those no other one covers
};

class FastClock {
 public:
  FastClock(const Space& space, const Setting& setting);

  /// Nothing if the schedule refuses this many pipeline devices (or replicas).
  const TimedOrder* order_for(const std::vector<int>& replicas);

  /// Never more than the simulated step.
  std::int64_t step(const Layout& layout);

  /// Whether the device's memory could suffice: false only if the simulated peak is above the
  /// limit.
  bool may_fit(const Layout& layout, int pipeline_device);

 private:
  struct Chunk;
  void place(const Layout& layout);
  void connect(const Layout& layout);
  void run(const Layout& layout, const TimedOrder& timed);
  std::int64_t finish(const Layout& layout);
  std::vector<std::int64_t> reduced(const Layout& layout) const;

  const Space& space_;
  const Setting& setting_;
  std::map<std::vector<int>, std::optional<TimedOrder>> orders_;

  struct Chunk {
    int device = 0;
    std::int64_t forward = 0, backward = 0, update = 0;
    std::int64_t last_backward = 0;
  };
  struct Channel {
    int to = 0;  ///< chunk
    std::int64_t latency = 0, occupancy = 0, free = 0;
  };
  std::vector<Chunk> chunks_;
  std::vector<int> first_chunk_;                ///< per stage, and the end
  std::vector<std::vector<Channel>> forward_;   ///< per chunk, to the next stage's
  std::vector<std::vector<Channel>> backward_;  ///< per chunk, to the previous stage's
  std::vector<std::int64_t> ready_forward_,
      ready_backward_;              ///< [chunk x microbatches + microbatch]
  std::vector<std::int64_t> free_;  ///< per device
};

/// The message from one replica to another of the next stage, in one direction.
struct Message {
  std::int64_t latency = 0;
  std::int64_t occupancy = 0;
};
Message message(const Space& space, int from, int to, Bytes bytes);
/// Rows that replica i of `of_i` and replica j of `of_j` share of `rows`.
std::int64_t common_rows(std::int64_t rows, int i, int of_i, int j, int of_j);
/// As lowering rounds it.
Bytes share_of_boundary(Bytes boundary, std::int64_t rows, std::int64_t all);
/// The rows of one replica.
std::int64_t share_of_rows(const Setting& setting, int replica, int replicas);

/// Bytes a device needs at least, at this moment.
Bytes bytes_at(const FullMoment& moment, const std::vector<ChunkMemory>& stages,
               const std::vector<Recompute>& recompute, bool computes);

}  // namespace stagecraft
