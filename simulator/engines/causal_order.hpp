// A topological order of a program's works: every work comes after all that it waits for. Internal
// to the simulator.

#pragma once

#include <span>
#include <vector>

#include "simulator/values/program.hpp"

namespace stagecraft {

/// Events in causal order. Each is one work, a fused pair, or one collective on all its members;
/// the works of event e are [ranges[e].first, ranges[e].end) of `works`. Works that no device
/// issues are left out.
struct CausalOrder {
  std::vector<int> works;
  std::vector<IndexRange> ranges;

  std::size_t size() const { return ranges.size(); }
  std::span<const int> event(std::size_t e) const {
    return {begin_of(works, ranges[e]), end_of(works, ranges[e])};
  }
};

/// The order of starts under unit costs, so that neighbours mostly belong to different devices.
/// Throws Error (check) as `simulate` does if the program deadlocks.
CausalOrder causal_order(const Program& program);

/// The send that a receive waits for. Throws Error (check) if there is none.
int own_send(const Program& program, int receive);

}  // namespace stagecraft
