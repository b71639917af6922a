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

/// One step, as far as the ranks of this process know it. A receive's stamp is its message: handed
/// over by the sender, arrived; sends have none of their own.
struct StepRecord {
  std::vector<Stamp> work;   ///< parallel to the program's
  std::vector<Stamp> ranks;  ///< from behind the barrier to the end of its last work
};

/// From the common start until the last rank is done.
Duration step_time(std::span<const Stamp> ranks);

/// Of the steps that are still kept, the one whose time is closest to the median of all. At least
/// one step.
int typical_step(std::span<const Duration> step_times);

/// Of a record that is whole, counted from its common start.
Timeline timeline_of(const Program& program, const StepRecord& record);

class RunRecording {
 public:
  RunRecording(const Program& program, int ranks, int steps);

  /// One of the last steps.
  StepRecord& step(int step);

 private:
  std::vector<StepRecord> kept_;  ///< step i is at i modulo the size
};

}  // namespace stagecraft
