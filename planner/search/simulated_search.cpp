#include "planner/search/simulated_search.hpp"

#include <algorithm>
#include <memory>
#include <span>

#include "planner/problem/incumbents.hpp"
#include "planner/relaxations/relaxations.hpp"
#include "planner/relaxations/work_bound.hpp"
#include "planner/search/exact.hpp"
#include "planner/search/heuristics/simulated_trials.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/space/setting_kinds.hpp"
#include "planner/space/workers.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// Default effort: some ten seconds on one core.
constexpr std::int64_t usual_simulated_effort = 2'000'000'000;

/// Numbers of balanced plans that are improved, and that are simulated side by side, on any number
/// of threads.
constexpr std::size_t most_improved = 4;
constexpr std::size_t starts_at_once = 16;

Problem with_schedules(Problem problem, bool simulated) {
  std::erase_if(problem.schedules, [&](const ScheduleChoice& choice) {
    return is_only_simulated(choice) != simulated;
  });
  return problem;
}

class SimulatedSearch {
 public:
  SimulatedSearch(const Problem& problem, const SearchControl& control)
      : control_(control),
        space_(problem),
        workers_(space_, control.threads),
        effort_{.left = control.effort.value_or(usual_simulated_effort), .stop = control.stop} {}

  void run() {
    const std::int64_t for_improving = effort_.left / 2;
    const std::vector<TrialStart> all = starts();
    for (std::size_t first = 0; first < all.size(); first += starts_at_once) {
      if (effort_.is_spent() || (effort_.left < for_improving && !found_.empty())) break;
      look_at(std::span(all).subspan(first, std::min(starts_at_once, all.size() - first)));
    }
    improve();
  }

  const Space& space() const { return space_; }
  /// The improved plans and the balanced plans that they came from.
  std::vector<Candidate> plans() const {
    std::vector<Candidate> plans = balanced_;
    for (const SimulatedPlan& found : found_) plans.push_back(found.candidate);
    return plans;
  }
  const TrialAccount& account() const { return account_; }

 private:
  std::vector<TrialStart> starts() const {
    std::vector<TrialStart> starts;
    for (const Setting& setting : space().settings()) {
      if (setting.replicas == ReplicaPolicy::round_robin) {
        add_turns(setting, starts);
        continue;
      }
      for (const Setting& column : space().columns(setting)) {
        if (!column.in_turns) starts.push_back(start_of(column, *column.depth, 1));
      }
    }
    std::ranges::stable_sort(starts, {}, &TrialStart::estimate);
    return starts;
  }

  void add_turns(const Setting& setting, std::vector<TrialStart>& starts) const {
    const int devices = space().devices(setting);
    if (devices > most_devices_walked) return;
    for (int depth = 1; depth <= space().most_pipeline_devices(setting); ++depth) {
      for (int each = 2; each * depth <= devices; ++each) {
        starts.push_back(start_of(setting, depth, each));
      }
    }
  }

  TrialStart start_of(const Setting& setting, int depth, int replicas) const {
    const LayerRange all{0, space().layers()};
    const CostTable& table = space().whole_microbatch(setting, 0);
    const auto part = [&](Duration time) {
      return static_cast<double>(time.count()) / (depth * replicas);
    };
    const double pass = part(table.forward(all) + table.backward(all));
    // If the schedule may hide messages, the estimate assumes that it hides all of them.
    const double hidden = part(table.forward_exchange(all) + table.backward_exchange(all));
    return {.setting = setting,
            .replicas = std::vector<int>(static_cast<std::size_t>(depth), replicas),
            .work = setting.microbatches * std::max(pass - hidden, 0.0),
            .estimate = (setting.microbatches + (depth - 1) / 2.0) * pass};
  }

  void look_at(std::span<const TrialStart> starts) {
    std::vector<TrialAccount> accounts(starts.size());
    std::vector<std::optional<SimulatedPlan>> plans(starts.size());
    workers_.run(static_cast<int>(starts.size()), [&](const Space& space, int task) {
      const auto i = static_cast<std::size_t>(task);
      const bool may_be_best =
          found_.empty() || starts[i].work < static_cast<double>(step_of(found_.front()).count());
      if (!may_be_best || control_.stop.stop_requested()) return;
      plans[i] = Trials(space, accounts[i]).balanced_plan(starts[i]);
    });
    for (std::size_t i = 0; i < starts.size(); ++i) {
      take_account(accounts[i]);
      if (plans[i]) keep(*std::move(plans[i]));
    }
  }

  void improve() {
    if (found_.empty()) return;
    for (const SimulatedPlan& found : found_) balanced_.push_back(found.candidate);
    const Effort each{.left = effort_.left / std::ssize(found_), .stop = control_.stop};
    std::vector<TrialAccount> accounts(found_.size());
    workers_.run(static_cast<int>(found_.size()), [&](const Space& space, int task) {
      const auto i = static_cast<std::size_t>(task);
      Trials(space, accounts[i]).improve(found_[i], each);
    });
    for (const TrialAccount& account : accounts) take_account(account);
  }

  void take_account(const TrialAccount& account) {
    account_.add(account);
    effort_.spend(account.spent);
  }

  /// Keeps the list sorted by step; of equal steps, the plan found first.
  void keep(SimulatedPlan found) {
    const auto place = std::ranges::upper_bound(found_, step_of(found), {}, step_of);
    const bool is_best = place == found_.begin();
    found_.insert(place, std::move(found));
    const std::size_t most =
        std::max(most_improved, static_cast<std::size_t>(std::max(control_.top, 1)));
    if (found_.size() > most) found_.pop_back();
    if (is_best && control_.progress) control_.progress({.best = step_of(found_.front())});
  }

  const SearchControl& control_;
  Space space_;
  SpaceWorkers workers_;
  Effort effort_;
  std::vector<SimulatedPlan> found_;
  std::vector<Candidate> balanced_;
  TrialAccount account_;
};

/// Searches the other orders of devices that the exact search would try. Returns the number of
/// simulated plans.
std::int64_t search_device_orders(const Problem& problem, const SearchControl& control,
                                  Leaderboard& board) {
  const std::vector<std::vector<int>> orders = asked_device_orders(problem).orders;
  const Space space(problem);
  std::int64_t simulated = 0;
  for (const std::vector<int>& order : orders) {
    if (control.stop.stop_requested()) break;
    SearchControl own = control;
    own.effort = control.effort.value_or(usual_simulated_effort) /
                 static_cast<std::int64_t>(std::max<std::size_t>(orders.size(), 4));
    const Problem ordered = in_device_order(problem, order);
    SimulatedSearch search(ordered, own);
    search.run();
    simulated += search.account().simulated;
    for (const Candidate& plan : search.plans()) {
      board.add(space.evaluate(plan.name, renumbered(plan.plan, order)));
    }
  }
  return simulated;
}

bool hands_tokens_to_experts(const Space& space, const Setting& setting) {
  const LayerRange all{0, space.layers()};
  const CostTable& table = space.whole_microbatch(setting, 0);
  return table.forward_exchange(all) + table.backward_exchange(all) > Duration{0};
}

/// Lower bound by work. Zero if passes cover parts of a microbatch, which may cost less than their
/// share, or if messages that the costs include may be hidden.
Duration least_by_work(const Space& space) {
  for (const Setting& setting : space.settings()) {
    const ScheduleKind& kind = find_schedule(setting.schedule.name);
    if (cuts_microbatches(setting.schedule)) return {};
    if (kind.hides_messages && hands_tokens_to_experts(space, setting)) return {};
  }
  return Duration{ColumnBounds(space).least_of_any_kind()};
}

std::string names_of(const Problem& problem) {
  std::vector<std::string> names;
  for (const ScheduleChoice& choice : problem.schedules) {
    if (std::ranges::find(names, choice.name) == names.end()) names.push_back(choice.name);
  }
  return join_words(names);
}

/// Tries a schedule that every framework has, as a remedy.
std::vector<std::string> remedies_for(Problem problem, const SearchControl& control) {
  constexpr std::int64_t little_effort = 100'000'000;
  const std::string now = names_of(problem);
  problem.schedules = plain_choices(std::move(problem.schedules));
  SearchControl own{.stop = control.stop};
  own.effort = little_effort;
  own.explain = false;
  if (search_exact(problem, own).plans.empty()) return {};
  return {concat("--schedule ", problem.schedules.front().name, " (now ", now, ")")};
}

Infeasible explain(const Problem& problem, const TrialAccount& account,
                   const SearchControl& control) {
  Infeasible infeasible{.remedies = remedies_for(problem, control)};
  if (const std::optional<Bytes> lacking = account.lacking()) {
    infeasible.short_by = *lacking;
    infeasible.reason = concat("no balanced plan under ", names_of(problem),
                               " fits, the closest lacks ", format_bytes(*lacking));
  } else {
    infeasible.reason = concat("no number of devices and microbatches allows ", names_of(problem),
                               account.rejected.empty() ? "" : concat(": ", account.rejected));
  }
  return infeasible;
}

}  // namespace

bool has_simulated_schedules(const Problem& problem) {
  return std::ranges::any_of(problem.schedules, is_only_simulated);
}

SearchResult search_with_simulated(const Problem& problem, const SearchControl& control) {
  const Problem others = with_schedules(problem, false);
  SearchResult result{.strategy = "exact"};
  if (!others.schedules.empty()) result = search_exact(others, control);
  Leaderboard board(control.top);
  for (const Candidate& plan : std::exchange(result.plans, {})) board.add(plan);
  const Problem own = with_schedules(problem, true);
  SimulatedSearch search(own, control);
  search.run();
  for (const Candidate& plan : search.plans()) board.add(plan);
  result.candidates += search.account().simulated + search_device_orders(own, control, board);
  result.interrupted = result.interrupted || control.stop.stop_requested();
  // `--certificate` cannot verify a bound of such plans again.
  result.question.reset();
  result.families.add({.lower_bound = least_by_work(search.space()),
                       .rests_on = std::string(relaxation::work_of_any_plan)});
  result.families.cap_searched(board.best().value_or(Duration::max()));
  result = finish(board, std::move(result));
  if (!result.plans.empty()) {
    result.infeasible.reset();
  } else if (others.schedules.empty() && !result.interrupted && control.explain) {
    result.infeasible = explain(own, search.account(), control);
  }
  return result;
}

}  // namespace stagecraft
