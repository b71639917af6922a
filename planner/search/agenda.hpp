// The agenda of a search by branch and bound (Land and Doig 1960): its methods, a row of a table
// each, in the order in which they are applied, and the one loop that works a method through.
//
//   propose     plans of a subproblem: incumbents, which rule others out
//   relax       a subproblem: its lower bound rises
//   enumerate   what relaxations leave of it
//
// Subproblems are worked on in batches, side by side: each for the limit there was before its
// batch, and what is found is judged after it, in order. So the answer does not depend on the
// number of threads.

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

/// Plans of one setting, as far as a search has come with them.
struct Subproblem {
  Time least = 0;  ///< no plan of it that fits is faster, but for those already judged
  std::string_view rests_on = relaxation::formula;  ///< `least`

  void raise_to(Time bound, std::string_view by) {
    if (bound <= least) return;
    least = bound;
    rests_on = by;
  }
};

enum class MethodKind { propose, relax, enumerate };

/// How far a method has come with those it chose.
struct Worked {
  std::size_t parts = 0;   ///< that were worked on
  std::size_t left = 0;    ///< that are still to be
  std::int64_t spent = 0;  ///< of the effort
};

/// What `Search` applies to its subproblems, `Search::Part`. Either it is worked through, by
/// `choose` and `work`, or it goes its own way, by `whole`.
template <class Search>
struct Method {
  using Parts = std::vector<typename Search::Part*>;
  using Batch = std::span<typename Search::Part* const>;

  MethodKind kind = MethodKind::propose;
  std::string_view name;
  /// Whether it is of use, as far as the search has come; null: always.
  bool (Search::*applies)() const = nullptr;
  /// Of the effort that is left, it has one of so many parts.
  std::int64_t part_of_effort = 1;

  /// The subproblems it is for, those to begin with in front.
  Parts (Search::*choose)() = nullptr;
  /// Side by side, on some of them.
  void (Search::*work)(Batch batch, const Method& method) = nullptr;
  /// Whether to leave it at that; null: no.
  bool (Search::*gives_up)(const Worked& worked) = nullptr;
  std::size_t most = std::numeric_limits<std::size_t>::max();  ///< of those chosen
  std::size_t at_once = 1;
  /// One at a time first, until there is an incumbent, and with it a limit.
  bool begins_with_one = false;
  /// Chooses again after each batch.
  bool repeats = false;
  /// Goes on where a plan is near enough to the bound already.
  bool ignores_gap = false;
  /// Of the effort that is left, each subproblem may use one of so many parts.
  std::int64_t parts = 1;
  int rounds = 0;  ///< of a relaxation

  void (Search::*whole)() = nullptr;
};

/// One method, worked through. `Search` has `ends(method)`, `takes(part)` (whether one that was
/// chosen is still to be worked on by its turn), `has_incumbent()`, `effort()` and `report()`.
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

/// With one of so many parts of the effort that is left.
template <class Task>
void with_part_of_effort(Effort& effort, std::int64_t parts, const Task& task) {
  const std::int64_t kept = effort.left - effort.left / parts;
  effort.left -= kept;
  task();
  effort.left = std::max<std::int64_t>(effort.left, 0) + kept;
}

/// All methods of the table, in order.
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
