// A measured timeline, work by work: when each of a program's instructions could have begun, when
// it began, and when it ended. One or several steps, which are the timeline's iterations.

#pragma once

#include <vector>

#include "simulator/values/program.hpp"
#include "simulator/values/timeline.hpp"

namespace stagecraft {

struct MeasuredWork {
  /// The time at which the work could start. For compute: all its waits, and the device's previous
  /// compute and collective, had ended; its own start if there was nothing before. For a
  /// collective: all members had arrived.
  Duration ready{0};
  Duration start{0};
  Duration end{0};
  /// Its duration, and the device's time between works for posting and sending messages.
  Duration time() const { return end - ready; }
  Duration overhead() const { return start - ready; }
};

struct MeasuredStep {
  std::vector<MeasuredWork> work;  ///< parallel to the program's
  Duration time{0};                ///< first start to last end
};

/// The timeline's iterations. Throws Error (input) unless there is one, they count from 0, and each
/// has exactly the program's instructions.
std::vector<MeasuredStep> measured_steps(const Program& program, const Timeline& timeline);

/// The time of the (lower) median step.
Duration median_time(const std::vector<MeasuredStep>& steps);

/// The iteration with the median time, as a timeline of its own; memory stays out.
Timeline median_iteration(const Timeline& timeline);

}  // namespace stagecraft
