// A measured timeline, work by work: when each of a program's instructions could have begun, when
// it began, and when it ended. One or several steps, which are the timeline's iterations.

#pragma once

#include <vector>

#include "simulator/values/program.hpp"
#include "simulator/values/timeline.hpp"

namespace stagecraft {

struct MeasuredWork {
  /// Of compute: all that it waits for had happened, and its device had ended the compute and the
  /// collective before; its start where nothing was before. Of a collective: all members had come.
  Duration ready{0};
  Duration start{0};
  Duration end{0};
  /// What it took, and what its device did between: posting and handing over messages.
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
