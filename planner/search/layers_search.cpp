#include "planner/search/layers_search.hpp"

#include <algorithm>

#include "planner/problem/question.hpp"
#include "planner/relaxations/relaxations.hpp"
#include "planner/search/brute_force.hpp"
#include "planner/search/column_search.hpp"
#include "planner/search/enumerate/mixed_search.hpp"
#include "planner/search/exact.hpp"
#include "planner/search/heuristics/layers_again.hpp"
#include "planner/search/heuristics/warm_starts.hpp"
#include "planner/search/infeasible.hpp"
#include "planner/search/unsearched.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/space/orders.hpp"

namespace stagecraft {

namespace {

/// For bounds of columns: some seconds.
constexpr std::int64_t effort_for_columns = 600'000'000;

/// Of which plans bounds of columns speak: not of replicas that take turns.
Scope scope_of_columns(const Space& space) {
  const Problem& problem = space.problem();
  const DeviceOrders orders = asked_device_orders(problem);
  const auto has_others = [&](const Setting& setting) {
    const bool takes_turns = setting.replicas != ReplicaPolicy::split && !problem.straight;
    return takes_turns || !has_only_columns(space, setting);
  };
  return {.equal_replicas = std::ranges::any_of(space.settings(), has_others),
          .one_degree = has_several_degrees(space),
          .no_empty = space.has_empty_stages(),
          .consecutive_devices = !orders.is_every || !orders.orders.empty(),
          .orders = has_more_orders(problem.profile.model, 1) ? 1 : 0};
}

/// Whether all plans of the first are of the second, too.
bool is_within(const Scope& inner, const Scope& outer) {
  const auto has = [](bool own, bool other) { return own || !other; };
  const bool has_orders = outer.orders == 0 || inner.orders == outer.orders;
  return has(inner.equal_replicas, outer.equal_replicas) &&
         has(inner.one_degree, outer.one_degree) && has(inner.no_empty, outer.no_empty) &&
         has(inner.consecutive_devices, outer.consecutive_devices) && has_orders;
}

bool has_empty_stage(const Plan& plan) {
  return std::ranges::any_of(plan.stages,
                             [](const Stage& stage) { return stage.layers.size() == 0; });
}

/// The same question where layers have no choice of their own.
Problem of_whole_stages(Problem problem) {
  problem.recompute_layers.clear();
  return problem;
}

/// In parts of the step.
double gap_between(Duration bound, Duration step) {
  return bound < step ? 1 - seconds(bound) / seconds(step) : 0;
}

/// Whether they differ in their layers at the most.
bool is_like(const Plan& plan, const Plan& other) {
  return plan.batch == other.batch && plan.schedule == other.schedule &&
         plan.replicas == other.replicas && plan.parallelism == other.parallelism &&
         plan.order == other.order &&
         std::ranges::equal(plan.stages, other.stages, {}, &Stage::devices, &Stage::devices);
}

/// Whether the plan is one of these, as far as that is plain to see.
bool is_within(const Space& space, const Plan& plan, const Scope& scope) {
  if (scope.equal_replicas && copies_of(plan) == 0) return false;
  if (scope.no_empty && has_empty_stage(plan)) return false;
  return (!scope.one_degree && !scope.consecutive_devices && scope.orders == 0) ||
         lies_in_space(space, plan);
}

class LayersSearch {
 public:
  LayersSearch(const Problem& problem, const SearchControl& control, double few)
      : problem_(problem), control_(control), space_(problem), board_(control.top), few_(few) {}

  SearchResult run() {
    SearchResult whole;
    if (!control_.only_scope) whole = search_whole_stages();
    SearchResult result = search_without_limits();
    speak_of_searched(result);
    make_to_fit(whole.plans);
    make_to_fit(result.plans);
    result.candidates += whole.candidates;
    result.pruned += whole.pruned;
    result.interrupted = result.interrupted || whole.interrupted || control_.stop.stop_requested();
    const Duration unlimited = result.lower_bound;
    if (may_raise(result)) are_few() ? look_at_all(result) : raise_by_columns(result);
    improve_best(result);
    if (result.lower_bound == unlimited) result.rests_on = relaxation::no_memory;
    result.searched_bound = std::min(result.lower_bound, best());
    bound_any_kind(whole, result);
    if (result.question) result.question = question_of(problem_);
    result = finish(board_, std::move(result));
    if (result.plans.empty() && !result.interrupted && control_.explain) explain(result);
    return result;
  }

 private:
  Duration best() const { return board_.best().value_or(Duration::max()); }

  SearchControl unexplained() const {
    SearchControl own = control_;
    own.explain = false;
    return own;
  }

  SearchResult search_whole_stages() {
    SearchResult found = search_exact(of_whole_stages(problem_), unexplained());
    for (const Candidate& plan : found.plans) board_.add(plan);
    return found;
  }

  /// Of plans that may be better than those known.
  SearchResult search_without_limits() {
    constexpr int most_starts = 4;
    SearchControl own = unexplained();
    own.top = std::max(control_.top, most_starts);
    own.progress = {};
    if (const auto threshold = board_.threshold())
      own.worth = std::min(control_.worth.value_or(Duration::max()), *threshold);
    return search_exact(without_memory_limits(problem_), own);
  }

  /// A plan of another kind that is better without limits says nothing of those that fit.
  void speak_of_searched(SearchResult& result) const {
    if (!result.bounds_any_kind) return;
    result.scope.least_of_others = std::min(result.scope.least_of_others, result.lower_bound);
    result.lower_bound = result.searched_bound;
    result.bounds_any_kind = false;
    result.question = question_of(problem_);
  }

  void make_to_fit(const std::vector<Candidate>& plans) {
    for (const Candidate& plan : plans) {
      const Candidate again = space_.evaluate(plan.name, plan.plan);
      if (again.prediction && again.prediction->fits) board_.add(again);
      if (const auto chosen = with_layers_again(space_, plan, control_.stop)) board_.add(*chosen);
    }
  }

  /// Columns know steps of training, along one order of layers and devices.
  bool may_raise(const SearchResult& result) const {
    const auto has_steps = [](const Setting& setting) { return setting.trains && setting.drains; };
    return !result.interrupted && result.question && result.lower_bound < best() &&
           !needs_placement(problem_) && std::ranges::all_of(space_.settings(), has_steps);
  }

  bool are_few() const {
    const double part = control_.effort ? static_cast<double>(*control_.effort) /
                                              static_cast<double>(effort_for_columns)
                                        : 1;
    return count_plans(problem_) <= few_ * std::min(part, 1.0);
  }

  /// Each plan of the space; nothing is known of them if a stop is requested before.
  void look_at_all(SearchResult& result) {
    SearchControl own = unexplained();
    own.progress = {};
    const SearchResult every = search_brute_force(problem_, own);
    result.candidates += every.candidates;
    result.interrupted = every.interrupted;
    if (every.interrupted) return;
    if (!every.plans.empty()) add_if_faster(every.plans.front());
    Scope scope = scope_of_columns(space_);
    scope.equal_replicas = scope.no_empty = false;
    scope.consecutive_devices = !asked_device_orders(problem_).is_every;
    take_bound(every.lower_bound, scope, result);
  }

  /// Where other choices of its layers take the same, as few of them as it takes.
  void add_if_faster(Candidate plan) {
    const Duration step = pace(*plan.prediction);
    if (step >= best()) return;
    plan.name = name_of_searched;
    const auto again = with_layers_again(space_, plan, control_.stop);
    board_.add(again && pace(*again->prediction) == step ? *again : plan);
  }

  void raise_by_columns(SearchResult& result) {
    Judge judge(space_, control_);
    judge.effort().left = control_.effort ? *control_.effort / 2 : effort_for_columns;
    SpaceWorkers workers(space_, control_.threads);
    ColumnSearch columns(space_, control_, judge, workers);
    for (const Setting& setting : space_.settings()) columns.add(setting);
    judge.board() = std::move(board_);
    columns.search_layers_again([&] {
      if (!control_.progress) return;
      const auto all = static_cast<double>(std::max<std::size_t>(columns.branches(), 1));
      const auto best = judge.board().best();
      const Duration least = std::max(result.lower_bound, Duration{columns.least()});
      control_.progress({.done = static_cast<double>(columns.done()) / all,
                         .best = best,
                         .gap = best ? gap_between(least, *best) : 1});
    });
    result.candidates += judge.simulated();
    result.interrupted = judge.stopped();
    board_ = std::move(judge.board());
    const Duration least{columns.least()};
    if (least <= result.lower_bound) return;
    result.rests_on = columns.rests_on();
    take_bound(least, scope_of_columns(space_), result);
  }

  /// Moves one cut of the best plan by one layer, as long as that helps and there is effort.
  void improve_best(SearchResult& result) {
    if (control_.only_scope) return;
    Effort effort{.left = control_.effort.value_or(effort_for_columns) / 4, .stop = control_.stop};
    while (result.lower_bound < best() && improve_once(effort)) ++result.candidates;
  }

  bool improve_once(Effort& effort) {
    if (board_.front() == nullptr) return false;
    const Candidate from = *board_.front();
    const auto stages = static_cast<int>(from.plan.stages.size());
    for (int move = 0; move < 2 * (stages - 1); ++move) {
      effort.spend(steps_per_simulated_instruction * 2 * stages * from.plan.batch.microbatches);
      if (effort.is_spent()) return false;
      const auto moved = with_cut_moved(from, move / 2, move % 2 == 0 ? 1 : -1);
      if (!moved || pace(*moved->prediction) >= best()) continue;
      board_.add(*moved);
      return true;
    }
    return false;
  }

  /// The cut behind this stage by so many layers, and all layers' choices anew.
  std::optional<Candidate> with_cut_moved(Candidate candidate, int stage, int layers) const {
    std::vector<Stage>& stages = candidate.plan.stages;
    const auto place = static_cast<std::size_t>(stage);
    Stage &here = stages[place], &next = stages[place + 1];
    here.layers.end += layers;
    next.layers.first += layers;
    if (here.layers.size() < 1 || next.layers.size() < 1) return {};
    if (!space_.allows(stage, here.layers) || !space_.allows(stage + 1, next.layers)) return {};
    for (Stage& own : stages) {
      own.recompute = Recompute::none;
      own.again.clear();
    }
    return with_layers_again(space_, candidate, control_.stop);
  }

  /// What is beyond the scope is bounded as if memory had no limits.
  static void take_bound(Duration least, Scope scope, SearchResult& result) {
    if (!is_within(result.scope, scope)) scope.least_of_others = result.lower_bound;
    result.scope.add(scope);
    result.lower_bound = least;
  }

  /// Where the best plan is of a kind that the bound does not speak of.
  void bound_any_kind(const SearchResult& whole, SearchResult& result) const {
    const Candidate* best = board_.front();
    if (best == nullptr) return;
    const bool is_beyond = whole.bounds_any_kind && is_like(best->plan, whole.plans.front().plan);
    if (!is_beyond && is_within(space_, best->plan, result.scope)) return;
    const Duration least = is_beyond ? whole.lower_bound : Duration::max();
    result.bounds_any_kind = true;
    if (result.question && is_beyond) result.question = whole.question;
    if (std::min(least, result.scope.least_of_others) >= result.lower_bound) return;
    result.lower_bound = std::min(least, result.scope.least_of_others);
    result.rests_on = relaxation::work_of_any_plan;
  }

  void explain(SearchResult& result) const {
    const Problem whole = of_whole_stages(problem_);
    result.infeasible = explain_infeasible(whole, Space(whole), control_.stop);
  }

  const Problem& problem_;
  const SearchControl& control_;
  Space space_;
  Leaderboard board_;
  double few_ = 0;  ///< plans
};

}  // namespace

Problem without_memory_limits(const Problem& problem) {
  Problem changed = problem;
  for (DeviceKind& kind : changed.cluster.kinds) kind.memory_unlimited = true;
  changed.memory_cap.reset();
  changed.recompute = {Recompute::none};
  changed.recompute_layers.clear();
  return changed;
}

SearchResult search_layers(const Problem& problem, const SearchControl& control, double few) {
  return LayersSearch(problem, control, few).run();
}

}  // namespace stagecraft
