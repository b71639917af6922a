#include "planner/searches/simulated_search.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>

#include "planner/bounds/column_bounds.hpp"
#include "planner/bounds/relaxations.hpp"
#include "planner/layouts/layouts.hpp"
#include "planner/searches/judge.hpp"
#include "planner/searches/workers.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/space/setting_kinds.hpp"
#include "planner/strategies.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// Some ten seconds on one core.
constexpr std::int64_t usual_effort = 2'000'000'000;

/// Orders made for durations are searched for themselves.
constexpr std::int64_t times_longer_to_generate = 8;

/// So many balanced plans are improved, and so many looked at side by side, whatever the number of
/// threads.
constexpr std::size_t most_improved = 4;
constexpr std::size_t starts_at_once = 16;

Problem with_schedules(Problem problem, bool simulated) {
  std::erase_if(problem.schedules, [&](const ScheduleChoice& choice) {
    return is_only_simulated(choice) != simulated;
  });
  return problem;
}

/// So many stages with equally many replicas each, and what their plans take if no device ever
/// waits. Replicas are columns, or take turns on few devices.
struct Start {
  Setting setting;
  std::vector<int> replicas;  ///< per pipeline device
  double work = 0;            ///< nanoseconds
  double estimate = 0;        ///< and with what a pipeline takes to fill
};

/// A plan, as what may be changed of it.
struct Found {
  Setting setting;
  Layout layout;
  Candidate candidate;
};

Duration step_of(const Found& found) {
  return pace(*found.candidate.prediction);
}

/// What looking for plans has come to beside them.
struct Account {
  std::int64_t simulated = 0;
  std::int64_t spent = 0;
  /// What the plan that came closest to fit, if none does, has too little: of those simulated, and
  /// of those whose weights and states alone are too much.
  std::optional<Bytes> short_by, short_by_states;
  /// Why others are none: of those with the most stages.
  std::string rejected;
  int stages_rejected = 0;

  void add(const Account& other) {
    simulated += other.simulated;
    spent += other.spent;
    fall_short(short_by, other.short_by);
    fall_short(short_by_states, other.short_by_states);
    reject(other.rejected, other.stages_rejected);
  }
  void reject(const std::string& reason, int stages) {
    if (stages <= stages_rejected) return;
    rejected = reason;
    stages_rejected = stages;
  }
  static void fall_short(std::optional<Bytes>& least, const std::optional<Bytes>& missing) {
    if (missing && (!least || *missing < *least)) least = missing;
  }
  std::optional<Bytes> lacking() const { return short_by ? short_by : short_by_states; }
};

/// Plans of one space, simulated one after the other.
class Trials {
 public:
  Trials(const Space& space, Account& account) : space_(space), account_(account) {}

  /// Stages of equal time, the first ones recomputing, as few as it takes to fit.
  std::optional<Found> balanced_plan(const Start& start) {
    const Setting& setting = start.setting;
    Layout layout = balanced(space_, setting, start.replicas);
    if (!is_allowed(space_, setting, layout)) return {};
    if (!has_room(setting, layout)) return {};
    const int stages = layout.stages();
    const auto with_first = [&](int count) {
      std::ranges::fill(layout.recompute, Recompute::none);
      std::fill_n(layout.recompute.begin(), count, Recompute::full);
      return simulate(setting, layout, few_microbatches(setting, layout));
    };
    int fewest = space_.allows(Recompute::none) ? 0 : stages;
    if (!with_first(fewest)) {
      if (!is_over_ || fewest == stages || !space_.allows(Recompute::full)) return {};
      if (!with_first(stages)) return {};
      for (int over = std::exchange(fewest, stages); fewest - over > 1;) {
        const int middle = (fewest + over) / 2;
        (with_first(middle) ? fewest : over) = middle;
      }
    }
    // With all microbatches it may take a little more.
    for (; fewest <= stages; ++fewest) {
      std::ranges::fill(layout.recompute, Recompute::none);
      std::fill_n(layout.recompute.begin(), fewest, Recompute::full);
      std::optional<Candidate> plan = simulate(setting, layout, setting.microbatches);
      if (plan) return Found{setting, layout, *std::move(plan)};
      if (!is_over_ || !space_.allows(Recompute::full)) return {};
    }
    return {};
  }

  /// One cut, one device or one stage's recomputation at a time, as long as that makes it faster
  /// and the effort lasts.
  void improve(Found& found, const Effort& effort) {
    spread(found);
    const auto lasts = [&, start = account_.spent] {
      return account_.spent - start < effort.left && !effort.stop.stop_requested();
    };
    for (bool better = true; better && lasts();) {
      better = false;
      for (int stage = 0; stage < found.layout.stages() && lasts(); ++stage) {
        better = change_recomputation(found, stage) || better;
        if (stage > 0) better = move_cut(found, stage) || better;
      }
      for (int device = 0; device < found.layout.pipeline_devices() && lasts(); ++device) {
        better = move_device(found, device) || better;
      }
    }
  }

 private:
  /// Whether weights, gradients and states leave any room.
  bool has_room(const Setting& setting, const Layout& layout) {
    const int devices = layout.pipeline_devices();
    const bool both_ways = setting.placement == StagePlacement::bidirectional;
    const OptimizerChoice& optimizer = space_.problem().optimizer;
    Holders holders = space_.holders(setting, layout.replicas.front());
    if (both_ways) holders = {2 * holders.all, 2 * holders.experts};
    std::vector<Bytes> held(static_cast<std::size_t>(devices), 0);
    for (int stage = 0; stage < layout.stages(); ++stage) {
      const int device = setting.device_of(stage, devices);
      const LayerRange layers{layout.cuts[static_cast<std::size_t>(stage)],
                              layout.cuts[static_cast<std::size_t>(stage) + 1]};
      const ChunkMemory memory =
          memory_share(space_.whole_microbatch(setting, device * layout.replicas.front())
                           .memory(layers, optimizer.kind),
                       optimizer.sharding, holders);
      const Bytes bytes = memory.parameters + memory.gradients + memory.optimizer;
      held[static_cast<std::size_t>(device)] += bytes;
      if (both_ways) held[static_cast<std::size_t>(devices - 1 - device)] += bytes;
    }
    for (int device = 0; device < devices; ++device) {
      const DeviceKind& kind = space_.kind(setting, device * layout.replicas.front());
      if (kind.memory_unlimited) continue;
      const Bytes over = held[static_cast<std::size_t>(device)] - usable_memory(kind);
      if (over <= 0) continue;
      Account::fall_short(account_.short_by_states, over);
      return false;
    }
    return true;
  }

  /// By then devices have been as full as they get, but for a little.
  static int few_microbatches(const Setting& setting, const Layout& layout) {
    const bool in_turns = setting.replicas == ReplicaPolicy::round_robin;
    return in_turns ? setting.microbatches
                    : std::min(setting.microbatches, 4 * layout.pipeline_devices());
  }

  /// Of so many microbatches, if it fits; else whether memory is the reason is in `is_over_`.
  std::optional<Candidate> simulate(Setting setting, const Layout& layout, int microbatches) {
    setting.microbatches = microbatches;
    const ScheduleKind& kind = find_schedule(setting.schedule.name);
    const bool is_made = kind.generate == zb_auto || kind.generate == zbv_auto;
    const int parts = kind.generate == chimera_halving ? 2 : setting.schedule.sequence_chunks;
    account_.spent += steps_per_simulated_instruction * instructions_of(setting, layout) *
                      (is_made ? times_longer_to_generate : parts);
    Plan plan = space_.plan(setting, layout);
    plan.batch.global = plan.batch.microbatch * plan.batch.microbatches;
    Candidate candidate = space_.evaluate(std::string(name_of_searched), plan);
    is_over_ = candidate.prediction && !candidate.prediction->fits;
    if (!candidate.prediction) {
      account_.reject(candidate.rejected, layout.stages());
      return {};
    }
    ++account_.simulated;
    if (!is_over_) return candidate;
    Account::fall_short(account_.short_by, shortfall(*candidate.prediction));
    return {};
  }

  bool change_recomputation(Found& found, int stage) {
    Layout layout = found.layout;
    Recompute& choice = layout.recompute[static_cast<std::size_t>(stage)];
    choice = choice == Recompute::none ? Recompute::full : Recompute::none;
    return space_.allows(choice) && take(found, layout);
  }

  bool move_cut(Found& found, int stage) {
    bool better = false;
    for (const int by : {-3, 3, -1, 1}) {
      Layout layout = found.layout;
      layout.cuts[static_cast<std::size_t>(stage)] += by;
      better = take(found, layout) || better;
    }
    return better;
  }

  /// On few devices columns become replicas, so that stages may have numbers of their own.
  void spread(Found& found) {
    Setting spread = found.setting;
    spread.microbatch *= std::exchange(spread.columns, 1);
    spread.depth.reset();
    if (space_.devices(spread) > most_devices_walked || space_.most_replicas(spread) == 1) return;
    for (int& count : found.layout.replicas) count *= found.setting.columns;
    found.setting = spread;
  }

  /// From this pipeline device, or from those that are idle, to any other one.
  bool move_device(Found& found, int from) {
    if (found.setting.depth || found.setting.columns > 1) return false;
    bool better = false;
    for (int to = 0; to < found.layout.pipeline_devices(); ++to) {
      Layout layout = found.layout;
      std::vector<int>& replicas = layout.replicas;
      const int used = std::accumulate(replicas.begin(), replicas.end(), 0);
      const bool is_new = to == from && used < space_.devices(found.setting);
      if (to == from && !is_new) continue;
      ++replicas[static_cast<std::size_t>(to)];
      if (!is_new && --replicas[static_cast<std::size_t>(from)] == 0) continue;
      better = take(found, layout) || better;
    }
    return better;
  }

  bool take(Found& found, const Layout& layout) {
    if (!is_allowed(space_, found.setting, layout)) return false;
    std::optional<Candidate> candidate =
        simulate(found.setting, layout, found.setting.microbatches);
    if (!candidate || pace(*candidate->prediction) >= step_of(found)) return false;
    found.layout = layout;
    found.candidate = *std::move(candidate);
    return true;
  }

  const Space& space_;
  Account& account_;
  bool is_over_ = false;
};

class SimulatedSearch {
 public:
  SimulatedSearch(const Problem& problem, const SearchControl& control)
      : control_(control),
        workers_(control.threads),
        effort_{.left = control.effort.value_or(usual_effort), .stop = control.stop} {
    for (int worker = 0; worker < workers_.count(); ++worker) {
      spaces_.push_back(std::make_unique<Space>(problem));
    }
  }

  void run() {
    const std::int64_t for_improving = effort_.left / 2;
    const std::vector<Start> all = starts();
    for (std::size_t first = 0; first < all.size(); first += starts_at_once) {
      if (effort_.is_spent() || (effort_.left < for_improving && !found_.empty())) break;
      look_at(std::span(all).subspan(first, std::min(starts_at_once, all.size() - first)));
    }
    improve();
  }

  const Space& space() const { return *spaces_.front(); }
  /// Improved ones, and what they were made of.
  std::vector<Candidate> plans() const {
    std::vector<Candidate> plans = balanced_;
    for (const Found& found : found_) plans.push_back(found.candidate);
    return plans;
  }
  const Account& account() const { return account_; }

 private:
  std::vector<Start> starts() const {
    std::vector<Start> starts;
    for (const Setting& setting : space().settings()) {
      if (setting.replicas == ReplicaPolicy::round_robin) {
        add_turns(setting, starts);
        continue;
      }
      for (const Setting& column : space().columns(setting)) {
        if (!column.in_turns) starts.push_back(start_of(column, *column.depth, 1));
      }
    }
    std::ranges::stable_sort(starts, {}, &Start::estimate);
    return starts;
  }

  void add_turns(const Setting& setting, std::vector<Start>& starts) const {
    const int devices = space().devices(setting);
    if (devices > most_devices_walked) return;
    for (int depth = 1; depth <= space().most_pipeline_devices(setting); ++depth) {
      for (int each = 2; each * depth <= devices; ++each) {
        starts.push_back(start_of(setting, depth, each));
      }
    }
  }

  Start start_of(const Setting& setting, int depth, int replicas) const {
    const LayerRange all{0, space().layers()};
    const CostTable& table = space().whole_microbatch(setting, 0);
    const auto part = [&](Duration time) {
      return static_cast<double>(time.count()) / (depth * replicas);
    };
    const double pass = part(table.forward(all) + table.backward(all));
    // Where messages may be hidden, all of them may.
    const double hidden = part(table.forward_exchange(all) + table.backward_exchange(all));
    return {.setting = setting,
            .replicas = std::vector<int>(static_cast<std::size_t>(depth), replicas),
            .work = setting.microbatches * std::max(pass - hidden, 0.0),
            .estimate = (setting.microbatches + (depth - 1) / 2.0) * pass};
  }

  void look_at(std::span<const Start> starts) {
    std::vector<Account> accounts(starts.size());
    std::vector<std::optional<Found>> plans(starts.size());
    workers_.run(static_cast<int>(starts.size()), [&](int worker, int task) {
      const auto i = static_cast<std::size_t>(task);
      const bool may_be_best =
          found_.empty() || starts[i].work < static_cast<double>(step_of(found_.front()).count());
      if (!may_be_best || control_.stop.stop_requested()) return;
      plans[i] =
          Trials(*spaces_[static_cast<std::size_t>(worker)], accounts[i]).balanced_plan(starts[i]);
    });
    for (std::size_t i = 0; i < starts.size(); ++i) {
      take_account(accounts[i]);
      if (plans[i]) keep(*std::move(plans[i]));
    }
  }

  void improve() {
    if (found_.empty()) return;
    for (const Found& found : found_) balanced_.push_back(found.candidate);
    const Effort each{.left = effort_.left / std::ssize(found_), .stop = control_.stop};
    std::vector<Account> accounts(found_.size());
    workers_.run(static_cast<int>(found_.size()), [&](int worker, int task) {
      const auto i = static_cast<std::size_t>(task);
      Trials(*spaces_[static_cast<std::size_t>(worker)], accounts[i]).improve(found_[i], each);
    });
    for (const Account& account : accounts) take_account(account);
  }

  void take_account(const Account& account) {
    account_.add(account);
    effort_.spend(account.spent);
  }

  /// The fastest come first; of equal ones those found first.
  void keep(Found found) {
    const auto place = std::ranges::upper_bound(found_, step_of(found), {}, step_of);
    const bool is_best = place == found_.begin();
    found_.insert(place, std::move(found));
    const std::size_t most =
        std::max(most_improved, static_cast<std::size_t>(std::max(control_.top, 1)));
    if (found_.size() > most) found_.pop_back();
    if (is_best && control_.progress) control_.progress({.best = step_of(found_.front())});
  }

  const SearchControl& control_;
  Workers workers_;
  Effort effort_;
  std::vector<std::unique_ptr<Space>> spaces_;  ///< of each worker
  std::vector<Found> found_;
  std::vector<Candidate> balanced_;
  Account account_;
};

/// The same on other orders of the devices, as the exact search tries them; how many were
/// simulated.
std::int64_t search_device_orders(const Problem& problem, const SearchControl& control,
                                  Leaderboard& board) {
  const std::vector<std::vector<int>> orders = asked_device_orders(problem).orders;
  const Space space(problem);
  std::int64_t simulated = 0;
  for (const std::vector<int>& order : orders) {
    if (control.stop.stop_requested()) break;
    SearchControl own = control;
    own.effort = control.effort.value_or(usual_effort) /
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

/// No plan is faster by its work alone. Nothing is known where passes are parts of a microbatch,
/// which may cost less than their part of it, or messages that costs count are hidden.
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

/// Whether another schedule would do, that every framework has.
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

Infeasible explain(const Problem& problem, const Account& account, const SearchControl& control) {
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
  SearchResult result{.plans = {}, .infeasible = {}, .strategy = "exact"};
  result.lower_bound = result.least_of_mixed = Duration::max();
  if (!others.schedules.empty()) result = search_exact(others, control);
  Leaderboard board(control.top);
  for (const Candidate& plan : std::exchange(result.plans, {})) board.add(plan);
  const Problem own = with_schedules(problem, true);
  SimulatedSearch search(own, control);
  search.run();
  for (const Candidate& plan : search.plans()) board.add(plan);
  result.candidates += search.account().simulated + search_device_orders(own, control, board);
  result.interrupted = result.interrupted || control.stop.stop_requested();
  // Nobody verifies a bound of such plans again.
  result.question.reset();
  const Duration least = least_by_work(search.space());
  if (least < result.lower_bound) {
    result.lower_bound = least;
    result.rests_on = relaxation::work_of_any_plan;
  }
  result.searched_bound = std::min(result.lower_bound, board.best().value_or(Duration::max()));
  result = finish(board, std::move(result));
  if (!result.plans.empty()) {
    result.infeasible.reset();
  } else if (others.schedules.empty() && !result.interrupted && control.explain) {
    result.infeasible = explain(own, search.account(), control);
  }
  return result;
}

}  // namespace stagecraft
