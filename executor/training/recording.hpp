// Time stamps of the last steps of a run. Each rank writes its own entries, without allocation
// during the run.

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

/// The stamps of one step from the ranks of this process. A receive's stamp covers its message,
/// from the sender's hand-over to the arrival; sends have no stamps.
struct StepRecord {
  std::vector<Stamp> work;   ///< parallel to the program's
  std::vector<Stamp> ranks;  ///< per rank: from the barrier to the end of its last work
};

/// Time from the common start until the last rank has finished.
Duration step_time(std::span<const Stamp> ranks);

/// Of the steps still kept, the one whose time is closest to the median of all. Needs at least one
/// step.
int typical_step(std::span<const Duration> step_times);

/// The first step that is still kept after `steps` steps.
int first_kept(int steps);

/// The timeline of complete records: each record is an iteration, and times count from the common
/// start of the first.
Timeline timeline_of(const Program& program, std::span<const StepRecord> records);

class RunRecording {
 public:
  RunRecording(const Program& program, int ranks, int steps);

  /// The record of one of the last steps.
  StepRecord& step(int step);

 private:
  std::vector<StepRecord> kept_;  ///< step i is at index i modulo the size
};

}  // namespace stagecraft
