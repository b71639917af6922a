#include "planner/search/other_devices.hpp"

#include <algorithm>

#include "planner/relaxations/relaxations.hpp"
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

/// The control of a search for plans better than what is on the board.
SearchControl for_better(const SearchControl& control, const Leaderboard& board) {
  SearchControl own = control;
  if (const auto threshold = board.threshold())
    own.worth = std::min(control.worth.value_or(Duration::max()), *threshold);
  return own;
}

/// Searches a variant of the problem with devices left out or in another order. Adds faster plans
/// to the board, renumbered to the cluster's devices.
Searched search_like(const Problem& problem, const std::vector<int>& order, const Space& space,
                     const SearchControl& control, std::int64_t effort, Leaderboard& board) {
  const SearchControl own = for_better(control, board);
  Leaderboard found(control.top);
  std::vector<Candidate> none;
  Searched searched = search_one_order(problem, own, effort, none, found);
  for (const Candidate& candidate : found.take()) {
    board.add(space.evaluate(candidate.name,
                             order.empty() ? candidate.plan : renumbered(candidate.plan, order)));
  }
  return searched;
}

Searched search_in(const std::vector<int>& order, const Problem& problem, const Space& space,
                   const SearchControl& control, std::int64_t effort, Leaderboard& board) {
  const Problem ordered = in_device_order(problem, order);
  return search_like(ordered, order, space, control, effort, board);
}

}  // namespace

FamilyBound bound_by_work(PlanFamily family, const Space& space, bool is_interrupted) {
  return {family, Duration{is_interrupted ? 0 : ColumnBounds(space).least_of_any_kind()},
          std::string(relaxation::work_of_any_plan)};
}

namespace {

/// Whether the bound by fastest links applies: all devices are of one kind and costs do not depend
/// on their places. False in searches of little effort, which are one of many.
bool may_have_fastest_links(const Problem& problem, const SearchControl& control,
                            const FamilyBounds& bounds) {
  const bool is_small = control.effort && !control.thorough;
  const Parallelism& parallelism = problem.parallelism;
  return !is_small && !bounds.leaves_out() && problem.cluster.kinds.size() == 1 &&
         !needs_placement(problem) && parallelism.context == 1 && parallelism.expert == 1;
}

/// Lower bound on plans with stages on any devices. It searches the cluster with all links as fast
/// as the fastest: there, consecutive devices are as good as any.
Searched search_on_any_devices(const Problem& problem, const Space& space,
                               const SearchControl& control, std::int64_t effort,
                               const Leaderboard& board, const Searched& known) {
  const bool is_interrupted = known.counts.interrupted;
  Searched anywhere;
  anywhere.bounds.add(bound_by_work(PlanFamily::scattered_devices, space, is_interrupted));
  if (is_interrupted || !may_have_fastest_links(problem, control, known.bounds)) return anywhere;
  Problem fastest = problem;
  fastest.cluster = with_fastest_links(problem.cluster);
  SearchControl own = for_better(control, board);
  own.progress = {};
  Leaderboard faster(1);
  std::vector<Candidate> none;
  Searched found = search_one_order(fastest, own, effort, none, faster);
  const Space on_fastest(fastest);
  if (!found.counts.interrupted && has_several_degrees(on_fastest))
    found.add(search_mixed_degrees(on_fastest, own, faster));
  anywhere.counts = found.counts;
  if (!found.counts.interrupted && found.bounds.least() > anywhere.bounds.least()) {
    anywhere.bounds.replace({PlanFamily::scattered_devices, found.bounds.least(),
                             std::string(relaxation::fastest_links)});
  }
  return anywhere;
}

/// Searches orders of devices that keep nodes together. The bound does not cover stages on
/// scattered devices, unless a bound shows that they are no faster.
Searched search_some_device_orders(const std::vector<std::vector<int>>& orders,
                                   const Problem& problem, const Space& space,
                                   const SearchControl& control, std::int64_t effort,
                                   Leaderboard& board, Searched known) {
  const auto parts = static_cast<std::int64_t>(std::max<std::size_t>(orders.size(), 4));
  for (const std::vector<int>& order : orders) {
    if (known.counts.interrupted) break;
    known.add(search_in(order, problem, space, control, effort / parts, board));
  }
  const Searched anywhere =
      search_on_any_devices(problem, space, control, effort / 4, board, known);
  known.counts.add(anywhere.counts);
  const Duration incumbent = board.best().value_or(Duration::max());
  if (anywhere.bounds.least() < std::min(known.bounds.searched(), incumbent))
    known.bounds.add(anywhere.bounds);
  return known;
}

/// Searches every order of devices along each order of the layers. If another order gives a better
/// plan, the bound covers all of them; else it covers consecutive devices, and scattered devices
/// get a bound of their own.
Searched search_every_device_order(const std::vector<std::vector<int>>& orders,
                                   const std::vector<Problem>& along, const SearchControl& control,
                                   std::int64_t effort, Leaderboard& board, Searched known) {
  const auto parts =
      static_cast<std::int64_t>(std::max<std::size_t>(orders.size() * along.size(), 4));
  const std::optional<Duration> before = board.best();
  Searched others;
  for (const Problem& problem : along) {
    const Space space(problem);
    for (const std::vector<int>& order : orders) {
      if (others.counts.interrupted) break;
      others.add(search_in(order, problem, space, control, effort / parts, board));
    }
  }
  if (others.counts.interrupted) others.bounds.add(FamilyBound{});
  known.counts.add(others.counts);
  known.bounds.add_left_out(others.bounds);
  FamilyBound row = *others.bounds.find(PlanFamily::searched);
  if (row.lower_bound >= known.bounds.searched()) return known;
  if (board.best() == before) row.family = PlanFamily::scattered_devices;
  known.bounds.add(std::move(row));
  return known;
}

}  // namespace

Searched search_device_orders(const Problem& problem,
                              const std::vector<std::vector<int>>& layer_orders, const Space& space,
                              const SearchControl& control, std::int64_t effort, Leaderboard& board,
                              Searched known) {
  const DeviceOrders asked = asked_device_orders(problem);
  if (!asked.is_every) {
    return search_some_device_orders(asked.orders, problem, space, control, effort, board,
                                     std::move(known));
  }
  if (asked.orders.empty()) return known;
  if (known.counts.interrupted) {  // the other orders have no bound
    known.bounds.add({.family = PlanFamily::scattered_devices});
    return known;
  }
  std::vector<Problem> along{problem};
  for (const std::vector<int>& order : layer_orders) along.push_back(in_order(problem, order));
  return search_every_device_order(asked.orders, along, control, effort, board, std::move(known));
}

namespace {

/// Places the plans of the answer on the cluster, adds them to the board, and returns the fastest.
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

PlacedSearch search_placed(const Problem& problem, const Space& space, const SearchControl& control,
                           std::int64_t effort, Leaderboard& board) {
  constexpr int most_placed = 4;
  SearchControl alike = control;
  alike.explain = false;
  alike.worth.reset();
  alike.top = std::max(control.top, most_placed);
  auto [best_links, searched] = PlacedSearch{};
  for (const Problem& question : questions_to_place(problem)) {
    // The first question gives the lower bound; the others only give plans.
    alike.effort = best_links ? effort / 8 : effort / 2;
    const SearchResult answer = search_at_once(question, alike, {});
    searched.counts.interrupted = searched.counts.interrupted || answer.interrupted;
    const auto best =
        best_placed(answer, space, {.left = effort / 16, .stop = control.stop}, board);
    if (!best_links) best_links = answer;
    const bool may_gain = best && best_links->lower_bound < board.best();
    if (searched.counts.interrupted || !may_gain) break;
    if (has_many_devices(space, space.settings().front())) continue;
    searched.add(search_in(best->order, problem, space, control, effort / 16, board));
  }
  return {.best_links = std::move(best_links), .searched = std::move(searched)};
}

namespace {

/// The problem restricted to the first `devices` devices.
Problem on_fewer(Problem problem, int devices) {
  problem.devices = devices;
  return problem;
}

/// The numbers of devices to try: those that the bound by work does not rule out.
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
      // On fewer devices the bound by work is even higher.
      if (Duration{ColumnBounds(space).least_of_any_kind()} >= best) break;
      counts.push_back(devices);
    }
  } catch (const Error&) {
    // So few devices do not hold one model-parallel group.
  }
  return counts;
}

}  // namespace

SearchCounts search_fewer_devices(const Problem& problem, const Space& space,
                                  const SearchControl& control, std::int64_t effort,
                                  Leaderboard& board) {
  SearchCounts searched;
  const std::vector<int> counts = fewer_devices(problem, board);
  const auto parts = static_cast<std::int64_t>(std::max<std::size_t>(counts.size(), 2));
  for (const int devices : counts) {
    if (searched.interrupted) break;
    searched.add(
        search_like(on_fewer(problem, devices), {}, space, control, effort / parts, board).counts);
  }
  return searched;
}

}  // namespace stagecraft
