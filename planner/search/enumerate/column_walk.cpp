#include "planner/search/enumerate/column_walk.hpp"

#include <algorithm>
#include <vector>

#include "planner/layouts/layouts.hpp"
#include "planner/relaxations/path_bound.hpp"
#include "planner/search/enumerate/chains.hpp"
#include "planner/space/setting_kinds.hpp"

namespace stagecraft {

void ColumnWalk::walk(int rounds) {
  if (!PathBound::applies(space_)) return walk_few();
  const std::vector<int> replicas(static_cast<std::size_t>(*branch_.setting.depth), 1);
  const TimedOrder* order = clock_.order_for(replicas);
  if (order != nullptr && !order->places_recompute) walk_by_paths(*order, rounds);
}

void ColumnWalk::walk_few() {
  const Setting& setting = branch_.setting;
  if (count_layouts(space_, setting, *setting.depth) > most_layouts_walked) return;
  const Time limit = std::min(judge_.limit(), never - 1);
  if (LoopedWalk(space_, setting).walk(clock_, judge_, limit) != WalkEnd::complete) return;
  branch_.raise_to(limit + 1, relaxation::walk);
}

/// Enumerates up to a cutoff between the bound and the incumbent, then up to the incumbent.
void ColumnWalk::walk_by_paths(const TimedOrder& order, int rounds) {
  const Setting& setting = branch_.setting;
  const std::stop_token& stop = judge_.effort().stop;
  const Time highest = std::min(judge_.limit(), never - 1);
  PathBound bound(space_, setting, order, highest);
  if (branch_.step < never) bound.start_from(branch_.layout);
  const auto pass_over = [](const Layout&) {};
  bound.know(branch_.paths);
  bound.raise(rounds, judge_.effort().left / 2, pass_over, stop);
  judge_.effort().spend(bound.spent());
  branch_.paths = bound.useful_paths();
  branch_.raise_to(bound.bound(), relaxation::paths);
  // Without an incumbent there is no distance to divide.
  const bool has_limit = highest < never - 1;
  for (Time part = has_limit ? 8 : 1; part >= 1; part /= 2) {
    if (!is_open() || judge_.is_spent()) return;
    const Time limit = std::min(highest, judge_.limit());
    const Time reach = branch_.least + (limit - branch_.least) / part;
    bool is_known = true;
    const bool saw_all = bound.prove(reach, judge_.effort(), [&](const Layout& layout) {
      if (is_allowed(space_, setting, layout))
        is_known = judge_.consider_as_it_is(clock_, setting, layout, reach) && is_known;
      return std::min(reach, judge_.limit());
    });
    if (!saw_all || !is_known) return;
    branch_.raise_to(reach + 1, relaxation::walk);
  }
}

}  // namespace stagecraft
