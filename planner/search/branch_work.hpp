// What is done to one setting of the exact search (planner/search/exact.cpp): its usual
// plans, its bound by bisection, and walks through what that leaves. It sees nothing of other
// settings, so several may be worked on side by side.

#pragma once

#include <memory>

#include "planner/relaxations/chain_bounds.hpp"
#include "planner/search/agenda.hpp"
#include "planner/search/enumerate/chains.hpp"
#include "planner/search/evaluator.hpp"
#include "planner/timing/fast_clock.hpp"

namespace stagecraft {

/// One setting and what is known about it.
struct Branch : Subproblem {
  const Setting* setting = nullptr;
  bool is_chain = false;               ///< with one stage per device, as `ChainBounds` knows them
  bool is_timed = false;               ///< unless there are too many devices to try any layout
  std::unique_ptr<LoopedWalk> looped;  ///< unless it is searched by columns
  bool gave_up = false;                ///< its walk was too long; `least` will not rise any more
  std::unique_ptr<ChainBounds> chain;  ///< of a chain, and
  std::unique_ptr<FastClock> clock;    ///< both on the space where they were last of use
  bool is_column() const { return looped == nullptr; }
};

/// The space, the judge and the branch outlive it. What it finds goes to the judge.
class BranchWork {
 public:
  BranchWork(const Space& space, Judge& judge, Branch& branch)
      : space_(space), judge_(judge), branch_(branch) {}

  /// Usual layouts, as they are and improved cut by cut.
  void seed();
  /// Whether a chain has anything within the limit at all; what comes up is tried.
  void rule_out();
  /// Raises the bound of a chain by bisection, and tries every chain that comes up.
  void narrow();
  /// Walks through all that is a bit above the bound; then the bound is there.
  void deepen();
  /// The same of few pipeline devices, as long as there are not too many layouts.
  void walk_shallow();

 private:
  /// What the branch has, or a new one where that is on another space.
  template <class Known>
  Known& on_own_space(std::unique_ptr<Known>& known) {
    if (known == nullptr || &known->space() != &space_)
      known = std::make_unique<Known>(space_, *branch_.setting);
    return *known;
  }
  ChainBounds& chain() { return on_own_space(branch_.chain); }
  FastClock& clock() { return on_own_space(branch_.clock); }
  bool is_open_chain() const {
    return branch_.is_chain && branch_.least <= std::min(judge_.limit(), never - 1);
  }
  void consider(const Layout& layout);
  bool probe(Time limit);
  WalkEnd walk(Time limit);

  const Space& space_;
  Judge& judge_;
  Branch& branch_;
};

}  // namespace stagecraft
