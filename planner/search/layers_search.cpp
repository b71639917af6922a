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

/// Effort for the bounds of columns: some seconds.
constexpr std::int64_t effort_for_columns = 600'000'000;

/// The families of plans that the bounds of columns do not cover. Round-robin replicas are one of
/// them.
std::vector<FamilyBound> left_out_of_columns(const Space& space) {
  const Problem& problem = space.problem();
  const DeviceOrders orders = asked_device_orders(problem);
  const auto has_others = [&](const Setting& setting) {
    const bool takes_turns = setting.replicas != ReplicaPolicy::split && !problem.straight;
    return takes_turns || !has_only_columns(space, setting);
  };
  std::vector<FamilyBound> families;
  const auto leave_out = [&](PlanFamily family, bool is_left_out, int layer_orders = 0) {
    if (is_left_out) families.push_back({.family = family, .orders = layer_orders});
  };
  leave_out(PlanFamily::unequal_replicas, std::ranges::any_of(space.settings(), has_others));
  leave_out(PlanFamily::several_degrees, has_several_degrees(space));
  leave_out(PlanFamily::empty_stages, space.has_empty_stages());
  leave_out(PlanFamily::scattered_devices, !orders.is_every || !orders.orders.empty());
  leave_out(PlanFamily::other_layer_orders, has_more_orders(problem.profile.model, 1), 1);
  return families;
}

/// The families of plans that brute force over one order of layers does not cover.
std::vector<FamilyBound> left_out_of_listing(const Space& space) {
  std::vector<FamilyBound> families = left_out_of_columns(space);
  const bool is_every = asked_device_orders(space.problem()).is_every;
  std::erase_if(families, [&](const FamilyBound& row) {
    return row.family == PlanFamily::unequal_replicas || row.family == PlanFamily::empty_stages ||
           (row.family == PlanFamily::scattered_devices && is_every);
  });
  return families;
}

bool has_empty_stage(const Plan& plan) {
  return std::ranges::any_of(plan.stages,
                             [](const Stage& stage) { return stage.layers.size() == 0; });
}

/// The problem without recomputation per layer.
Problem of_whole_stages(Problem problem) {
  problem.recompute_layers.clear();
  return problem;
}

/// The gap between bound and step, as a fraction of the step.
double gap_between(Duration bound, Duration step) {
  return bound < step ? 1 - seconds(bound) / seconds(step) : 0;
}

/// Whether the plans differ at most in cuts and recomputation.
bool is_like(const Plan& plan, const Plan& other) {
  return plan.batch == other.batch && plan.schedule == other.schedule &&
         plan.replicas == other.replicas && plan.parallelism == other.parallelism &&
         plan.order == other.order &&
         std::ranges::equal(plan.stages, other.stages, {}, &Stage::devices, &Stage::devices);
}

/// Whether the plan belongs to none of the families left out, judged by its stages alone.
bool is_searched_plan(const Space& space, const Plan& plan, const FamilyBounds& families) {
  using enum PlanFamily;
  if (families.has(unequal_replicas) && copies_of(plan) == 0) return false;
  if (families.has(empty_stages) && has_empty_stage(plan)) return false;
  const bool is_in_space_or_out = families.has(several_degrees) ||
                                  families.has(scattered_devices) ||
                                  families.has(other_layer_orders);
  return !is_in_space_or_out || lies_in_space(space, plan);
}

class LayersSearch {
 public:
  LayersSearch(const Problem& problem, const SearchControl& control, double few)
      : problem_(problem), control_(control), space_(problem), board_(control.top), few_(few) {}

  SearchResult run() {
    SearchResult whole;
    if (!control_.only_scope) whole = search_whole_stages();
    const SearchResult unlimited = search_without_limits();
    begin_with(unlimited);
    make_to_fit(whole.plans);
    make_to_fit(unlimited.plans);
    counts_.add(unlimited);
    counts_.add(whole);
    counts_.interrupted = counts_.interrupted || control_.stop.stop_requested();
    if (may_raise()) are_few() ? look_at_all() : raise_by_columns();
    improve_best();
    families_.cap_searched(best());
    bound_any_kind(whole);
    SearchResult result{counts_};
    result.strategy = "exact";
    result.families = families_;
    if (has_question_) result.question = question_of(problem_);
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

  /// Searches without limits on memory for plans that may beat the incumbents.
  SearchResult search_without_limits() {
    constexpr int most_starts = 4;
    SearchControl own = unexplained();
    own.top = std::max(control_.top, most_starts);
    own.progress = {};
    if (const auto threshold = board_.threshold())
      own.worth = std::min(control_.worth.value_or(Duration::max()), *threshold);
    return search_exact(without_memory_limits(problem_), own);
  }

  /// Takes over the bounds of the search without limits on memory, which also hold with them. A
  /// plan of another family that wins there need not fit, so its own bound is only kept for later.
  void begin_with(const SearchResult& unlimited) {
    families_ = unlimited.families;
    has_question_ = unlimited.question.has_value();
    families_.replace(
        {PlanFamily::searched, families_.searched(), std::string(relaxation::no_memory)});
    if (!families_.has(PlanFamily::any_kind)) return;
    of_any_kind_ = unlimited.lower_bound;
    families_.remove(PlanFamily::any_kind);
    for (FamilyBound row : unlimited.families.rows()) {
      row.lower_bound = of_any_kind_;
      if (row.is_left_out()) families_.add(std::move(row));
    }
    has_question_ = true;
  }

  void make_to_fit(const std::vector<Candidate>& plans) {
    for (const Candidate& plan : plans) {
      const Candidate again = space_.evaluate(plan.name, plan.plan);
      if (again.prediction && again.prediction->fits) board_.add(again);
      if (const auto chosen = with_layers_again(space_, plan, control_.stop)) board_.add(*chosen);
    }
  }

  /// Whether step 3 applies: columns bound training steps, along one order of layers and devices.
  bool may_raise() const {
    const auto has_steps = [](const Setting& setting) { return setting.trains && setting.drains; };
    return !counts_.interrupted && has_question_ && families_.searched() < best() &&
           !needs_placement(problem_) && std::ranges::all_of(space_.settings(), has_steps);
  }

  bool are_few() const {
    const double part = control_.effort ? static_cast<double>(*control_.effort) /
                                              static_cast<double>(effort_for_columns)
                                        : 1;
    return count_plans(problem_) <= few_ * std::min(part, 1.0);
  }

  /// Simulates every plan of the space. If a stop is requested before the end, the bound stays.
  void look_at_all() {
    SearchControl own = unexplained();
    own.progress = {};
    const SearchResult every = search_brute_force(problem_, own);
    counts_.candidates += every.candidates;
    counts_.interrupted = every.interrupted;
    if (every.interrupted) return;
    if (!every.plans.empty()) add_if_faster(every.plans.front());
    raise(every.lower_bound, std::string(relaxation::walk), left_out_of_listing(space_));
  }

  /// Adds the plan if it beats the incumbent. If least recomputation per layer gives the same step,
  /// that version is added.
  void add_if_faster(Candidate plan) {
    const Duration step = pace(*plan.prediction);
    if (step >= best()) return;
    plan.name = name_of_searched;
    const auto again = with_layers_again(space_, plan, control_.stop);
    board_.add(again && pace(*again->prediction) == step ? *again : plan);
  }

  void raise_by_columns() {
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
      const Duration least = std::max(families_.searched(), Duration{columns.least()});
      control_.progress({.done = static_cast<double>(columns.done()) / all,
                         .best = best,
                         .gap = best ? gap_between(least, *best) : 1});
    });
    counts_.candidates += judge.simulated();
    counts_.interrupted = judge.stopped();
    board_ = std::move(judge.board());
    const Duration least{columns.least()};
    if (least > families_.searched()) raise(least, columns.rests_on(), left_out_of_columns(space_));
  }

  /// Local search: moves one cut of the best plan by one layer, as long as that makes it faster and
  /// effort is left.
  void improve_best() {
    if (control_.only_scope) return;
    Effort effort{.left = control_.effort.value_or(effort_for_columns) / 4, .stop = control_.stop};
    while (families_.searched() < best() && improve_once(effort)) ++counts_.candidates;
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

  /// The plan with the cut behind this stage moved by `layers`, and recomputation chosen anew.
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

  /// Raises the bound of the searched family. Families that the new bound does not cover get the
  /// bound without limits on memory.
  void raise(Duration least, std::string rests_on, const std::vector<FamilyBound>& left_out) {
    for (FamilyBound row : left_out) {
      const FamilyBound* known = families_.find(row.family);
      if (known != nullptr && known->orders == row.orders) continue;
      row.lower_bound = families_.searched();
      row.rests_on = relaxation::no_memory;
      families_.add(std::move(row));
    }
    families_.replace({PlanFamily::searched, least, std::move(rests_on)});
  }

  /// If the bound does not cover the best plan's family, adds a bound that covers plans of any
  /// kind.
  void bound_any_kind(const SearchResult& whole) {
    const Candidate* best = board_.front();
    if (best == nullptr) return;
    const bool is_beyond =
        whole.families.has(PlanFamily::any_kind) && is_like(best->plan, whole.plans.front().plan);
    if (!is_beyond && is_searched_plan(space_, best->plan, families_)) return;
    const Duration least =
        std::min(is_beyond ? whole.lower_bound : Duration::max(), families_.least_left_out());
    families_.add({PlanFamily::any_kind, std::min(least, of_any_kind_),
                   std::string(relaxation::work_of_any_plan)});
    has_question_ = has_question_ && (!is_beyond || whole.question);
  }

  void explain(SearchResult& result) const {
    const Problem whole = of_whole_stages(problem_);
    result.infeasible = explain_infeasible(whole, Space(whole), control_.stop);
  }

  const Problem& problem_;
  const SearchControl& control_;
  Space space_;
  Leaderboard board_;
  double few_ = 0;  ///< maximum number of plans for brute force
  FamilyBounds families_;
  SearchCounts counts_;
  Duration of_any_kind_ = Duration::max();  ///< bound on plans of any kind without limits on memory
  bool has_question_ = false;
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
