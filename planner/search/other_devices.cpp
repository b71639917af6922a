#include "planner/search/other_devices.hpp"

#include <algorithm>

#include "planner/search/column_search.hpp"
#include "planner/search/enumerate/mixed_search.hpp"
#include "planner/search/exact.hpp"
#include "planner/search/heuristics/placement.hpp"
#include "planner/search/one_order.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/space/orders.hpp"
#include "planner/space/room.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// Plans of a question like the one before that are better than what is on the board.
std::vector<Candidate> find_better(const Problem& problem, const SearchControl& control,
                                   std::int64_t effort, const Leaderboard& board,
                                   SearchResult& result) {
  SearchControl own = control;
  if (const auto threshold = board.threshold())
    own.worth = std::min(control.worth.value_or(Duration::max()), *threshold);
  Leaderboard found(control.top);
  std::vector<Candidate> none;
  search_one_order(problem, own, effort, none, found, result);
  return found.take();
}

/// The same question with the cluster's devices in another order; whatever is faster.
void search_in(const std::vector<int>& order, const Problem& problem, const Space& space,
               const SearchControl& control, std::int64_t effort, Leaderboard& board,
               SearchResult& result) {
  const Problem ordered = in_device_order(problem, order);
  for (const Candidate& candidate : find_better(ordered, control, effort, board, result))
    board.add(space.evaluate(candidate.name, renumbered(candidate.plan, order)));
}

}  // namespace

Duration least_of_any_kind(const Space& space, const SearchResult& result) {
  return Duration{result.interrupted ? 0 : ColumnBounds(space).least_of_any_kind()};
}

namespace {

/// Whether all devices are of one kind and costs do not ask where they are. Not for small searches,
/// which are one of many.
bool may_have_fastest_links(const Problem& problem, const SearchControl& control,
                            const SearchResult& result) {
  const bool is_small = control.effort && !control.thorough;
  const Parallelism& parallelism = problem.parallelism;
  return !is_small && result.scope.is_all() && problem.cluster.kinds.size() == 1 &&
         !needs_placement(problem) && parallelism.context == 1 && parallelism.expert == 1;
}

/// No plan whose stages stand on any devices takes less. Where all links are the fastest, they may
/// as well stand on consecutive ones.
Duration least_on_any_devices(const Problem& problem, const Space& space,
                              const SearchControl& control, std::int64_t effort,
                              const Leaderboard& board, SearchResult& result) {
  const Duration by_work = least_of_any_kind(space, result);
  if (result.interrupted || !may_have_fastest_links(problem, control, result)) return by_work;
  Problem fastest = problem;
  fastest.cluster = with_fastest_links(problem.cluster);
  SearchResult found;
  found.lower_bound = Duration::max();
  SearchControl own = control;
  own.progress = {};
  if (const auto threshold = board.threshold())
    own.worth = std::min(control.worth.value_or(Duration::max()), *threshold);
  Leaderboard faster(1);
  std::vector<Candidate> none;
  search_one_order(fastest, own, effort, none, faster, found);
  Duration least = std::min(found.lower_bound, found.scope.least_of_others);
  const Space on_fastest(fastest);
  if (!found.interrupted && has_several_degrees(on_fastest))
    least = std::min(least, search_mixed_degrees(on_fastest, own, faster, found));
  result.candidates += found.candidates;
  result.pruned += found.pruned;
  result.interrupted = found.interrupted;
  return found.interrupted ? by_work : std::max(by_work, least);
}

/// Orders that keep nodes together: stages on devices here and there remain beyond the scope,
/// unless they are known to be no faster.
void search_some_device_orders(const std::vector<std::vector<int>>& orders, const Problem& problem,
                               const Space& space, const SearchControl& control,
                               std::int64_t effort, Leaderboard& board, SearchResult& result) {
  const auto parts = static_cast<std::int64_t>(std::max<std::size_t>(orders.size(), 4));
  for (const std::vector<int>& order : orders) {
    if (result.interrupted) break;
    search_in(order, problem, space, control, effort / parts, board, result);
  }
  const Duration least = least_on_any_devices(problem, space, control, effort / 4, board, result);
  if (least >= std::min(result.lower_bound, board.best().value_or(Duration::max()))) return;
  result.scope.add({.consecutive_devices = true, .least_of_others = least});
}

/// Every order, along each of these orders of the layers: the bound is that of all plans, or of
/// those on consecutive devices, with what the others take at least.
void search_every_device_order(const std::vector<std::vector<int>>& orders,
                               const std::vector<Problem>& along, const SearchControl& control,
                               std::int64_t effort, Leaderboard& board, SearchResult& result) {
  const auto parts =
      static_cast<std::int64_t>(std::max<std::size_t>(orders.size() * along.size(), 4));
  const std::optional<Duration> before = board.best();
  SearchResult others;
  others.lower_bound = Duration::max();
  for (const Problem& problem : along) {
    const Space space(problem);
    for (const std::vector<int>& order : orders) {
      if (others.interrupted) break;
      search_in(order, problem, space, control, effort / parts, board, others);
    }
  }
  result.candidates += others.candidates;
  result.pruned += others.pruned;
  result.interrupted = result.interrupted || others.interrupted;
  if (others.interrupted) others.lower_bound = Duration{0};
  result.scope.add(others.scope);
  if (others.lower_bound >= result.lower_bound) return;
  if (board.best() != before) {
    result.lower_bound = others.lower_bound;
    result.rests_on = others.rests_on;
  } else {
    result.scope.add({.consecutive_devices = true, .least_of_others = others.lower_bound});
  }
}

}  // namespace

void search_device_orders(const Problem& problem, const std::vector<std::vector<int>>& layer_orders,
                          const Space& space, const SearchControl& control, std::int64_t effort,
                          Leaderboard& board, SearchResult& result) {
  const DeviceOrders asked = asked_device_orders(problem);
  if (!asked.is_every) {
    return search_some_device_orders(asked.orders, problem, space, control, effort, board, result);
  }
  if (asked.orders.empty()) return;
  if (result.interrupted) {  // nothing is known of the others
    return result.scope.add({.consecutive_devices = true, .least_of_others = Duration{0}});
  }
  std::vector<Problem> along{problem};
  for (const std::vector<int>& order : layer_orders) along.push_back(in_order(problem, order));
  search_every_device_order(asked.orders, along, control, effort, board, result);
}

namespace {

/// The plan of the question's answer that is the fastest where it had best stand; all go on the
/// board.
std::optional<Placed> best_placed(const SearchResult& answer, const Space& space, Effort placing,
                                  Leaderboard& board) {
  std::optional<Placed> best;
  for (const Candidate& plan : answer.plans) {
    Placed placed = place(space, plan, placing);
    if (!placed.candidate.prediction) continue;
    board.add(placed.candidate);
    if (!best || pace(*placed.candidate.prediction) < pace(*best->candidate.prediction))
      best = std::move(placed);
  }
  return best;
}

}  // namespace

SearchResult search_placed(const Problem& problem, const Space& space, const SearchControl& control,
                           std::int64_t effort, Leaderboard& board, SearchResult& result) {
  constexpr int most_placed = 4;
  SearchControl alike = control;
  alike.explain = false;
  alike.worth.reset();
  alike.top = std::max(control.top, most_placed);
  std::optional<SearchResult> best_links;
  for (const Problem& question : questions_to_place(problem)) {
    // The first one bounds the answer, the others are ways to find it.
    alike.effort = best_links ? effort / 8 : effort / 2;
    const SearchResult answer = search_at_once(question, alike, {});
    result.interrupted = result.interrupted || answer.interrupted;
    const auto best =
        best_placed(answer, space, {.left = effort / 16, .stop = control.stop}, board);
    if (!best_links) best_links = answer;
    const bool may_gain = best && best_links->lower_bound < board.best();
    if (result.interrupted || !may_gain) break;
    if (has_many_devices(space, space.settings().front())) continue;
    search_in(best->order, problem, space, control, effort / 16, board, result);
  }
  return *std::move(best_links);
}

void take_bound(const SearchResult& best_links, const Space& space, SearchResult& result) {
  if (result.bounds_any_kind) {
    result.lower_bound = least_of_any_kind(space, result);
    return;
  }
  result.lower_bound = best_links.lower_bound;
  result.searched_bound = best_links.searched_bound;
  result.scope = best_links.scope;
  result.bounds_any_kind = best_links.bounds_any_kind;
  result.least_of_mixed = best_links.least_of_mixed;
  result.question = best_links.question;
  result.rests_on = best_links.rests_on;
}

namespace {

/// The same question about the first so many devices.
Problem on_fewer(Problem problem, int devices) {
  problem.devices = devices;
  return problem;
}

/// Where the best plan is far from its bound, one that leaves some devices out may be better than
/// what was found on all of them: on fewer there are fewer layouts, and more of them are looked at.
/// Just beyond as many devices as chains are walked on, as many as that.
std::vector<int> fewer_devices(const Problem& problem, const Leaderboard& board) {
  constexpr int most_left_out_beyond = 3;
  const int all = available_devices(problem);
  if (problem.devices || !problem.use_fewer_devices ||
      all > most_devices_walked + most_left_out_beyond) {
    return {};
  }
  if (all > most_devices_walked) return {most_devices_walked};
  const Duration best = board.best().value_or(Duration::max());
  std::vector<int> counts;
  try {
    for (int devices = all - 1; devices >= 1; --devices) {
      const Problem fewer = on_fewer(problem, devices);
      if (lacks_room_for_one_copy(fewer)) continue;
      const Space space(fewer);
      // Of fewer still there is even more to do for each.
      if (Duration{ColumnBounds(space).least_of_any_kind()} >= best) break;
      counts.push_back(devices);
    }
  } catch (const Error&) {
    // So few do not hold the peers of a replica.
  }
  return counts;
}

}  // namespace

void search_fewer_devices(const Problem& problem, const Space& space, const SearchControl& control,
                          std::int64_t effort, Leaderboard& board, SearchResult& result) {
  const Duration bound = std::min(result.lower_bound, result.scope.least_of_others);
  if (control.only_scope || result.interrupted || bound >= board.best().value_or(Duration::max()))
    return;
  const std::vector<int> counts = fewer_devices(problem, board);
  const auto parts = static_cast<std::int64_t>(std::max<std::size_t>(counts.size(), 2));
  for (const int devices : counts) {
    if (result.interrupted) break;
    const Problem fewer = on_fewer(problem, devices);
    SearchResult of_fewer;
    const std::vector<Candidate> found =
        find_better(fewer, control, effort / parts, board, of_fewer);
    result.interrupted = of_fewer.interrupted;
    result.candidates += of_fewer.candidates;
    result.pruned += of_fewer.pruned;
    for (const Candidate& candidate : found)
      board.add(space.evaluate(candidate.name, candidate.plan));
  }
}

}  // namespace stagecraft
