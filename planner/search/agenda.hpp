// The agenda of a search by branch and bound (Land and Doig 1960): its methods, a row of a table
// each, in the order in which they are applied, and the one loop that works a method through.
//
//   propose     plans of a subproblem: incumbents, which rule others out
//   relax       a subproblem: its lower bound rises
//   enumerate   the layouts of a subproblem that its lower bound leaves
//
// The subproblems of a batch are worked on side by side. Each of them uses the cutoff from before
// the batch, and the evaluator takes their layouts after the batch, in order. So the answer does
// not depend on the number of threads.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/relaxations/relaxations.hpp"
#include "planner/relaxations/stage_bounds.hpp"
#include "planner/space/effort.hpp"

namespace stagecraft {

/// The plans of one setting, and the lower bound that the search has on them.
struct Subproblem {
  Time least = 0;  ///< lower bound on its plans that fit, except those already simulated
  std::string_view rests_on = relaxation::formula;  ///< the relaxation that `least` comes from

  void raise_to(Time bound, std::string_view by) {
    if (bound <= least) return;
    least = bound;
    rests_on = by;
  }
};

enum class MethodKind { propose, relax, enumerate };

/// Progress of a method on the subproblems that it chose.
struct Worked {
  std::size_t parts = 0;   ///< subproblems worked on
  std::size_t left = 0;    ///< subproblems still to be worked on
  std::int64_t spent = 0;  ///< effort used
};

/// A method that `Search` applies to its subproblems (`Search::Part`). Either `work_through` runs
/// it, with `choose` and `work`, or it is the one function `whole`.
template <class Search>
struct Method {
  using Parts = std::vector<typename Search::Part*>;
  using Batch = std::span<typename Search::Part* const>;

  MethodKind kind = MethodKind::propose;
  std::string_view name;
  /// Whether the method is of use in the present state of the search; null: always.
  bool (Search::*applies)() const = nullptr;
  /// The method may use 1/part_of_effort of the effort that is left.
  std::int64_t part_of_effort = 1;

  /// The subproblems that the method is for, in the order in which they are worked on.
  Parts (Search::*choose)() = nullptr;
  /// Works on a batch of the subproblems, side by side.
  void (Search::*work)(Batch batch, const Method& method) = nullptr;
  /// Whether the method stops before it has worked on all subproblems; null: never.
  bool (Search::*gives_up)(const Worked& worked) = nullptr;
  std::size_t most = std::numeric_limits<std::size_t>::max();  ///< maximum number of subproblems
  std::size_t at_once = 1;
  /// Batches hold one subproblem until there is an incumbent, and with it a cutoff.
  bool begins_with_one = false;
  /// Calls `choose` again after each batch.
  bool repeats = false;
  /// Also runs when the best plan is within the requested gap of the bound.
  bool ignores_gap = false;
  /// Each subproblem may use 1/parts of the effort that is left.
  std::int64_t parts = 1;
  int rounds = 0;  ///< number of rounds of a relaxation

  void (Search::*whole)() = nullptr;
};

/// Runs one method on the subproblems that it chooses. `Search` has `ends(method)`, `takes(part)`
/// (whether a chosen subproblem still needs work when its batch begins), `has_incumbent()`,
/// `effort()` and `report()`.
template <class Search>
void work_through(Search& search, const Method<Search>& method) {
  using Parts = typename Method<Search>::Parts;
  std::size_t size = method.begins_with_one ? 1 : method.at_once;
  bool goes_on = true;
  while (std::exchange(goes_on, false)) {
    Parts parts = (search.*method.choose)();
    parts.resize(std::min(parts.size(), method.most));
    Worked worked;
    const std::int64_t before = search.effort().left;
    for (std::size_t next = 0; next < parts.size() && !search.ends(method);) {
      Parts batch;
      for (; next < parts.size() && batch.size() < size; ++next) {
        if (search.takes(*parts[next])) batch.push_back(parts[next]);
      }
      if (batch.empty()) break;
      (search.*method.work)(batch, method);
      if (search.has_incumbent()) size = std::min(2 * size, method.at_once);
      search.report();
      goes_on = method.repeats;
      if (goes_on) break;
      if (method.gives_up == nullptr) continue;
      worked.parts += batch.size();
      worked.spent = before - search.effort().left;
      const auto rest = std::span(parts).subspan(next);
      worked.left = static_cast<std::size_t>(
          std::ranges::count_if(rest, [&](const auto* part) { return search.takes(*part); }));
      if ((search.*method.gives_up)(worked)) return;
    }
  }
}

/// Runs the task with 1/parts of the effort that is left.
template <class Task>
void with_part_of_effort(Effort& effort, std::int64_t parts, const Task& task) {
  const std::int64_t kept = effort.left - effort.left / parts;
  effort.left -= kept;
  task();
  effort.left = std::max<std::int64_t>(effort.left, 0) + kept;
}

/// Runs all methods of the table that apply, in order.
template <class Search>
void carry_out(Search& search, std::span<const Method<Search>> agenda) {
  for (const Method<Search>& method : agenda) {
    if (method.applies != nullptr && !(search.*method.applies)()) continue;
    const auto run = [&] {
      if (method.whole != nullptr) return (search.*method.whole)();
      work_through(search, method);
    };
    if (method.part_of_effort == 1) {
      run();
    } else {
      with_part_of_effort(search.effort(), method.part_of_effort, run);
    }
  }
}

}  // namespace stagecraft
