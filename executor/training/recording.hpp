// When things happened in the last steps of a run. Each rank writes its own entries, nobody
// allocates while it runs.

#pragma once

#include <span>
#include <vector>

#include "executor/transports/transport.hpp"
#include "simulator/values/timeline.hpp"

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

/// After so many steps, the first of those that are still kept.
int first_kept(int steps);

/// Of records that are whole, in their order: each is an iteration, and all count from the common
/// start of the first.
Timeline timeline_of(const Program& program, std::span<const StepRecord> records);

class RunRecording {
 public:
  RunRecording(const Program& program, int ranks, int steps);

  /// One of the last steps.
  StepRecord& step(int step);

 private:
  std::vector<StepRecord> kept_;  ///< step i is at i modulo the size
};

}  // namespace stagecraft
