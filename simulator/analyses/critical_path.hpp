// Why a step takes as long as it does: the chain of work from its first moment to its last without
// a gap, and how late any other work could be without prolonging it.

#pragma once

#include <optional>
#include <vector>

#include "simulator/simulate.hpp"

namespace stagecraft {

/// Work of one kind that the critical path passes `count` times.
struct CriticalRun {
  int round = 0;            ///< runs of the same round take turns, `count` times each
  int device = 0;           ///< of a message: the sender
  std::optional<int> peer;  ///< of a message: the receiver
  Op op = Op::forward;      ///< a message goes by its send
  int stage = 0;
  int first_microbatch = 0;
  int last_microbatch = 0;
  int count = 0;
  Duration time{0};  ///< of all of them; of a message its occupancy where the next message waited
                     ///< for that, else all of its way
  bool operator==(const CriticalRun&) const = default;
};

struct CriticalPath {
  std::vector<CriticalRun> runs;  ///< from the first moment on; times add up to the step. What
                                  ///< takes no time is left out
  std::vector<int> works;         ///< all works on the path, in order
  std::vector<Duration> slack;    ///< per work: how much later it could start with the same step
                                  ///< (total float); zero on the path
};

/// Of one iteration. Among paths of equal length the one that stays on its device, else comes from
/// the work of the least number. Throws as `simulate` does.
CriticalPath critical_path(const Program& program, const Costs& costs);

/// By span of the program's timeline, of its first iteration: whether it is on the path. Of a
/// message both ends are.
std::vector<char> on_path(const CriticalPath& path, const Program& program,
                          const Timeline& timeline);

/// By how many nanoseconds the step grows when every message's latency grows by one: the most
/// latencies that any longest chain contains.
std::int64_t latencies_in_step(const Program& program, const Costs& costs);

}  // namespace stagecraft
