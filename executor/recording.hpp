// When things happened in the last steps of a run. Each rank writes its own entries, nobody
// allocates while it runs.

#pragma once

#include <span>
#include <vector>

#include "executor/transport.hpp"
#include "simulator/timeline.hpp"

namespace stagecraft {

struct Stamp {
  Moment start{0};
  Moment end{0};
};

/// One step. A receive's stamp is its message: handed over by the sender, arrived; sends have none
/// of their own.
struct StepRecord {
  std::vector<Stamp> work;   ///< parallel to the program's
  std::vector<Stamp> ranks;  ///< from behind the barrier to the end of its last work
};

class RunRecording {
 public:
  RunRecording(const Program& program, int steps);

  StepRecord& step(int step);
  /// From the common start until the last rank is done. Call between the step's end and the next
  /// one's start.
  Duration step_time(int step) const;
  /// Of the step with the median time (of those still kept, the closest to it), counted from its
  /// common start.
  Timeline timeline(const Program& program, std::span<const Duration> step_times) const;

 private:
  std::vector<StepRecord> kept_;  ///< step i is at i modulo the size
};

}  // namespace stagecraft
