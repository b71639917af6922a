#include "planner/analysis/side_by_side.hpp"

#include <algorithm>

#include "planner/space/workers.hpp"

namespace stagecraft {

std::vector<SearchResult> search_side_by_side(Search search, std::span<const Problem> problems,
                                              const SearchControl& control) {
  const Workers workers(control.threads);
  const auto count = static_cast<int>(problems.size());
  std::vector<SearchResult> results(problems.size());
  workers.run(count, [&](int, int i) {
    const auto own = static_cast<std::size_t>(i);
    SearchControl one = control;
    one.threads = std::max(workers.count() / count, 1);
    if (i > 0) one.progress = nullptr;
    results[own] = search_for_objective(search, problems[own], one);
  });
  return results;
}

}  // namespace stagecraft
