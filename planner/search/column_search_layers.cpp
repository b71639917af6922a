// The column search with recomputation per layer: bounds by critical paths; the layouts found on
// the way are made to fit.

#include <algorithm>
#include <array>
#include <utility>

#include "planner/search/column_search.hpp"
#include "planner/search/heuristics/layers_again.hpp"

namespace stagecraft {

/// Keeps the latest layouts, which tight multipliers produced, for later: making them fit takes
/// simulations.
void ColumnSearch::keep_latest(ColumnBranch& branch, std::vector<Layout> layouts) {
  constexpr std::size_t most = 2;
  if (layouts.size() > most) layouts.erase(layouts.begin(), layouts.end() - most);
  branch.latest = std::move(layouts);
}

/// Chooses recomputation per layer for the kept layouts so that they fit, with 1/parts of the
/// effort.
void ColumnSearch::make_latest_fit(const Branches& branches, std::int64_t parts) {
  const std::int64_t least_left = judge_.effort().left - judge_.effort().left / parts;
  for (ColumnBranch* branch : branches) {
    for (const Layout& layout : std::exchange(branch->latest, {})) {
      if (stops() || judge_.effort().left < least_left) return;
      judge_.effort().spend(steps_per_simulated_instruction *
                            instructions_of(branch->setting, layout));
      const Candidate plain{.name = std::string(name_of_searched),
                            .plan = space_.plan(branch->setting, layout)};
      if (const auto chosen = with_layers_again(space_, plain, control_.stop)) judge_.add(*chosen);
    }
  }
}

/// First a few rounds for every branch, which gives incumbents that rule branches out; then the
/// branch of the lowest bound, which is the overall bound.
void ColumnSearch::search_layers_again(std::function<void()> report) {
  report_ = std::move(report);
  constexpr std::array rounds{3, 30, 120, 500};
  constexpr std::size_t size = 8, for_all = 2;
  constexpr std::int64_t parts = 16;
  while (!is_enough()) {
    let_go_of_closed();
    Branches branches = open_by_least();
    std::erase_if(branches,
                  [&](const ColumnBranch* branch) { return branch->raised == rounds.size(); });
    if (branches.empty()) return;
    std::ranges::stable_sort(branches, {}, [&](const ColumnBranch* branch) {
      return std::min(branch->raised, for_all);
    });
    const std::size_t level = branches.front()->raised;
    std::erase_if(branches, [&](const ColumnBranch* branch) { return branch->raised != level; });
    branches.resize(std::min(branches.size(), size));
    work_on(branches, [&](ColumnWork& work) { work.raise(rounds[level]); });
    for (ColumnBranch* branch : branches) ++branch->raised;
    if (level > 0) make_latest_fit(branches, parts);
    report_();
  }
}

}  // namespace stagecraft
