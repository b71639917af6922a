// Summarises a chain of works as runs of the same kind. Internal to the simulator.

#pragma once

#include <vector>

#include "simulator/analyses/critical_path.hpp"
#include "simulator/engines/timing_graph.hpp"

namespace stagecraft {

/// A work on the chain, and the time until the next one starts.
struct CriticalLink {
  int work = 0;
  Duration time{0};
};

/// The links [first, end) of a chain repeat `times` times more, each time `microbatches` later.
struct RepeatedLinks {
  std::size_t first = 0, end = 0;
  int microbatches = 0;
  int times = 0;
};

/// The runs of a chain; alternating links become one round, and work without time is left out.
std::vector<CriticalRun> critical_runs(const Program& program, const TimingGraph& graph,
                                       const std::vector<CriticalLink>& links,
                                       const std::optional<RepeatedLinks>& repeated = {});

}  // namespace stagecraft
