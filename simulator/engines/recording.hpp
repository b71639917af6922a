// What an engine found out, on its way to a timeline: when each work was done. Internal to the
// simulator.

#pragma once

#include <array>
#include <vector>

#include "simulator/values/timeline.hpp"

namespace stagecraft {

/// When a work of one iteration was done.
struct Moment {
  Duration start{0};
  Duration end{0};
  int work = 0;
  int iteration = 0;
};

/// What one device did, lane by lane. Apart, the lanes are (almost) sorted by start already.
using Moments = std::array<std::vector<Moment>, lanes.size()>;

/// Works of one device are noted in its issue order, iteration by iteration: equal starts keep it.
class Recording {
 public:
  explicit Recording(const Program& program);
  void note(int device, const Moment& moment);

  /// Spans, and memory by category: a buffer lives from the start of the work that allocates it to
  /// the end of the one that frees it.
  Timeline timeline() &&;

 private:
  const Program& program_;
  std::vector<Moments> by_device_;
};

}  // namespace stagecraft
