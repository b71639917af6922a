// The work on one setting of the exact search (planner/search/exact.cpp): heuristic plans, a lower
// bound by bisection, and enumeration of the layouts that the bound leaves. It reads nothing of
// other settings, so several settings may be worked on side by side.

#pragma once

#include <memory>

#include "planner/relaxations/chain_bounds.hpp"
#include "planner/search/agenda.hpp"
#include "planner/search/enumerate/chains.hpp"
#include "planner/search/evaluator.hpp"
#include "planner/timing/fast_clock.hpp"

namespace stagecraft {

/// One setting, its lower bound, and the objects that search it.
struct Branch : Subproblem {
  const Setting* setting = nullptr;
  bool is_chain = false;               ///< one stage per device, so that `ChainBounds` applies
  bool is_timed = false;               ///< false: too many devices to time any layout
  std::unique_ptr<LoopedWalk> looped;  ///< null: `ColumnSearch` searches the setting
  bool gave_up = false;                ///< its enumeration took too long; `least` stays as it is
  std::unique_ptr<ChainBounds> chain;  ///< if `is_chain`; on the space of its last use
  std::unique_ptr<FastClock> clock;    ///< on the space of its last use
  bool is_column() const { return looped == nullptr; }
};

/// The space, the judge and the branch must outlive it. The judge gets the layouts that it finds.
class BranchWork {
 public:
  BranchWork(const Space& space, Judge& judge, Branch& branch)
      : space_(space), judge_(judge), branch_(branch) {}

  /// Tries the usual layouts, unchanged and improved cut by cut.
  void seed();
  /// For a chain: raises the bound above the cutoff if no chain is within it. Tries the chains that
  /// the relaxation finds.
  void rule_out();
  /// For a chain: raises the bound by bisection, and tries every chain that the relaxation finds.
  void narrow();
  /// Enumerates all layouts up to a cutoff slightly above the bound, and raises the bound to it.
  void deepen();
  /// Enumerates the layouts on few pipeline devices, unless there are too many. The bound stays.
  void walk_shallow();

 private:
  /// The branch's object if it was built on this space, else a new one.
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
