// Records an engine's times of works, and makes a timeline of them. Internal to the simulator.

#pragma once

#include <array>
#include <vector>

#include "simulator/values/timeline.hpp"

namespace stagecraft {

/// Start and end of a work in one iteration.
struct Moment {
  Duration start{0};
  Duration end{0};
  int work = 0;
  int iteration = 0;
};

/// The works of one device by lane. Each lane by itself is (almost) sorted by start already.
using Moments = std::array<std::vector<Moment>, lanes.size()>;

/// The works of one device must be recorded in issue order, iteration by iteration; works with
/// equal starts keep that order.
class Recording {
 public:
  explicit Recording(const Program& program);
  void note(int device, const Moment& moment);

  /// The timeline's spans, and its memory by category: a buffer lives from the start of the work
  /// that allocates it to the end of the one that frees it.
  Timeline timeline() &&;

 private:
  const Program& program_;
  std::vector<Moments> by_device_;
};

}  // namespace stagecraft
