// The critical path of a step: the chain of work without gaps from its start to its end; and the
// slack of all other work.

#pragma once

#include <optional>
#include <vector>

#include "simulator/simulate.hpp"

namespace stagecraft {

/// Work of one kind that the critical path passes `count` times.
struct CriticalRun {
  int round = 0;            ///< runs of the same round alternate, `count` times each
  int device = 0;           ///< for a message, the sender
  std::optional<int> peer;  ///< for a message, the receiver
  Op op = Op::forward;      ///< for a message, its send
  int stage = 0;
  int first_microbatch = 0;
  int last_microbatch = 0;
  int count = 0;
  Duration time{0};  ///< total time; of a message its occupancy if the next message waited for
                     ///< that, else its whole transfer
  bool operator==(const CriticalRun&) const = default;
};

struct CriticalPath {
  std::vector<CriticalRun> runs;  ///< from the start on; times add up to the step. Work without
                                  ///< time is left out
  std::vector<int> works;         ///< all works on the path, in order
  std::vector<Duration> slack;    ///< per work: the delay of its start that leaves the step
                                  ///< unchanged (total float); zero on the path
};

/// The critical path of one iteration. Among paths of equal length, the one that stays on its
/// device, else the one from the work of the smallest number. Throws as `simulate` does.
CriticalPath critical_path(const Program& program, const Costs& costs);

/// For each span of the timeline's first iteration: whether it is on the path. Both ends of a
/// message are.
std::vector<char> on_path(const CriticalPath& path, const Program& program,
                          const Timeline& timeline);

/// The growth of the step, in nanoseconds, if every message's latency grows by one nanosecond: the
/// maximum number of latencies on a longest chain.
std::int64_t latencies_in_step(const Program& program, const Costs& costs);

}  // namespace stagecraft
