#include "planner/search/branch_work.hpp"

#include <algorithm>

#include "planner/layouts/layouts.hpp"
#include "planner/relaxations/bisection.hpp"

namespace stagecraft {

namespace {

/// Bisection stops at 1/narrow_steps of the distance between bound and cutoff.
constexpr Time narrow_steps = 256;

}  // namespace

void BranchWork::consider(const Layout& layout) {
  if (is_allowed(space_, *branch_.setting, layout))
    judge_.consider(clock(), *branch_.setting, layout, never);
}

void BranchWork::seed() {
  for (const Layout& layout : usual_layouts(space_, *branch_.setting, clock())) {
    if (judge_.is_spent()) return;
    consider(layout);
    consider(improve(clock(), space_, *branch_.setting, layout, judge_.effort()));
  }
}

bool BranchWork::probe(Time limit) {
  judge_.effort().spend(std::int64_t{20} * space_.layers() * space_.layers());
  if (!chain().probe(limit, judge_.effort().stop)) return false;
  for (int stages = 1; stages <= chain().most_stages(); ++stages) {
    if (chain().is_open(stages)) consider(chain().best_layout(stages));
  }
  return true;
}

void BranchWork::rule_out() {
  if (!is_open_chain() || judge_.is_spent()) return;
  const Time high = std::min(judge_.limit(), never - 1);
  if (probe(high)) return;
  branch_.least = high + 1;
  branch_.rests_on = relaxation::neighbours;
}

void BranchWork::narrow() {
  if (!is_open_chain() || judge_.is_spent()) return;
  branch_.rests_on = relaxation::neighbours;
  Time high = std::min(judge_.limit(), never - 1);
  if (!probe(high)) {
    branch_.least = high + 1;
    return;
  }
  // Without an incumbent, doubling finds the order of magnitude first.
  Time reach = std::max<Time>(branch_.least, 1);
  while (judge_.limit() >= never && reach < high / 2 && !judge_.is_spent()) {
    if (probe(reach)) {
      high = reach;
      break;
    }
    branch_.least = reach + 1;
    reach *= 2;
  }
  const Time enough = std::max<Time>((high - branch_.least) / narrow_steps, 0);
  branch_.least = raise_by_bisection(
      branch_.least, high,
      [&](Time least, Time& top) {
        top = std::min(top, judge_.limit());
        return !judge_.is_spent() && top - least > enough;
      },
      [&](Time middle) { return probe(middle); });
}

void BranchWork::deepen() {
  const Time high = std::min(judge_.limit(), never - 1);
  const Time distance = high - branch_.least;
  Time limit = distance < high / 1000 ? high : branch_.least + distance / 4;
  // Without an incumbent the distance is meaningless: the cutoff grows fourfold.
  if (high == never - 1) limit = branch_.least < never / 8 ? 4 * branch_.least + 1 : high;
  limit = std::min(limit, high);
  const std::int64_t pruned = judge_.pruned();
  if (walk(limit) == WalkEnd::gave_up) {
    branch_.gave_up = true;
    return;
  }
  // An enumeration that pruned nothing has seen every layout of the setting.
  const bool saw_all = !branch_.is_chain && judge_.pruned() == pruned;
  branch_.least = saw_all ? never : limit + 1;
  branch_.rests_on = relaxation::walk;
}

WalkEnd BranchWork::walk(Time limit) {
  if (!branch_.is_chain) return LoopedWalk(*branch_.looped, space_).walk(clock(), judge_, limit);
  if (!probe(limit)) return WalkEnd::complete;
  return walk_chain(space_, *branch_.setting, chain(), clock(), judge_, limit);
}

void BranchWork::walk_shallow() {
  LoopedWalk(space_, *branch_.setting).walk_shallow(clock(), judge_, judge_.limit());
}

}  // namespace stagecraft
