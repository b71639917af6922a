#include "planner/search/enumerate/mixed_search.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>

#include "planner/problem/objective.hpp"
#include "planner/relaxations/bisection.hpp"
#include "planner/relaxations/chain_bounds.hpp"
#include "planner/relaxations/relaxations.hpp"
#include "planner/relaxations/work_bound.hpp"
#include "planner/search/enumerate/chain_walk.hpp"
#include "planner/search/evaluator.hpp"
#include "planner/search/heuristics/warm_starts.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

using Settings = std::vector<const Setting*>;

/// Default effort: one or two seconds, most of it for simulation.
constexpr std::int64_t effort_in_all = 600'000'000;
/// Effort for one entry of the tables.
constexpr std::int64_t steps_per_entry = 25;
/// Bisection stops at 1/narrow_steps of the distance between bound and cutoff.
constexpr Time narrow_steps = 64;
/// Maximum number of choices of recomputation that are tried for one chain.
constexpr std::size_t most_cases = 256;

/// Groups of settings that differ only in their degree, the smallest degree first.
std::vector<Settings> groups_of(const Space& space) {
  std::vector<Settings> groups;
  for (const Setting& setting : space.settings()) {
    const auto is_alike = [&](const Settings& group) {
      const Setting& other = *group.front();
      return other.schedule == setting.schedule && other.microbatch == setting.microbatch &&
             other.replicas == setting.replicas && other.choice == setting.choice;
    };
    const auto found = std::find_if(groups.begin(), groups.end(), is_alike);
    (found == groups.end() ? groups.emplace_back() : *found).push_back(&setting);
  }
  std::erase_if(groups, [](const Settings& group) { return group.size() < 2; });
  for (Settings& group : groups) {
    std::stable_sort(group.begin(), group.end(),
                     [](const Setting* a, const Setting* b) { return a->peers < b->peers; });
  }
  return groups;
}

/// The plans that matter: those that beat the incumbent, or all that the leaderboard keeps.
enum class Wanted { best, shown };

Time limit_of(Wanted wanted, const SearchControl& control, const Leaderboard& board) {
  const auto bar = wanted == Wanted::best ? board.best() : board.threshold();
  const Time worth = control.worth ? control.worth->count() : never;
  return std::min({worth, bar ? bar->count() - 1 : never, never - 1});
}

/// Enumerates the chains of one group of settings.
class MixedWalk : public ChainWalk {
 public:
  MixedWalk(const Space& space, const SearchControl& control, const ChainBounds& bounds,
            Leaderboard& board, SearchCounts& counts, Effort& effort, Wanted wanted)
      : ChainWalk(space, bounds),
        control_(control),
        board_(board),
        counts_(counts),
        effort_(effort),
        wanted_(wanted) {
    for (const Setting* setting : bounds.settings())
      clocks_.push_back(std::make_unique<FastClock>(space, *setting));
  }

  /// Tries the chain of shortest round trip for each number of stages.
  void try_best() {
    for (int stages = 2; stages <= bounds_.most_stages(); ++stages) {
      if (!bounds_.is_open(stages)) continue;
      path_.clear();
      int device = 0;
      for (const ChainBounds::ChainStage& stage : bounds_.best_chain(stages)) {
        path_.push_back({.kind = stage.kind, .device = device, .layers = stage.layers});
        path_.back().choice.recompute = stage.recompute;
        device += kind_of(path_.back()).devices();
      }
      consider();
    }
    path_.clear();
  }

  /// Enumerates all chains within the limit. Returns false if the effort ran out.
  bool walk_all() {
    complete_ = !effort_.is_spent();
    for (int stages = 2; stages <= bounds_.most_stages(); ++stages) {
      if (bounds_.is_open(stages)) walk(stages);
    }
    return complete_;
  }

 private:
  Time limit() const override { return limit_of(wanted_, control_, board_); }
  bool gives_up() override {
    if (effort_.is_spent()) complete_ = false;
    return effort_.is_spent();
  }
  void count_step() override { effort_.spend(20); }
  void count_pruned() override { ++counts_.pruned; }
  void visit() override { is_within() ? consider() : count_pruned(); }

  /// Whether every stage is within the limit, given the true round trips of the whole chain.
  bool is_within() const {
    Time round_trip = 0;
    const Place* behind = nullptr;
    for (auto place = path_.rbegin(); place != path_.rend(); ++place) {
      const StageKind& kind = kind_of(*place);
      if (behind != nullptr) {
        const HandOver moved = bounds_.transfer(behind->layers.first, behind->device, kind.replicas,
                                                kind_of(*behind).replicas);
        round_trip += moved.there + behind->choice.fill + behind->choice.drain + moved.back;
      }
      behind = &*place;
      const int left = static_cast<int>(place - path_.rbegin()) + 1;
      const int own = ChainBounds::own_device(kind, place->device);
      if (bounds_.stage(kind).bound(place->head, place->choice, place->layers, own, kind.replicas,
                                    left, {round_trip, 0}) > limit()) {
        return false;
      }
    }
    return true;
  }

  /// Simulates the chain. Chains of a single degree are left to the main search.
  void consider() {
    const auto is_alike = [&](const Place& place) {
      return kind_of(place).setting == kind_of(path_.front()).setting;
    };
    if (std::all_of(path_.begin(), path_.end(), is_alike)) return;
    Layout layout{.replicas = {}, .cuts = {0}, .recompute = {}};
    for (const Place& place : path_) {
      layout.replicas.push_back(kind_of(place).replicas);
      layout.cuts.push_back(place.layers.end);
      layout.recompute.push_back(place.choice.recompute);
    }
    const Setting& finest = bounds_.finest();
    if (!space_.wants(finest, layout.replicas) || !choose_recomputation(layout)) return;
    Plan plan = space_.plan(finest, layout);
    for (std::size_t stage = 0; stage < path_.size(); ++stage)
      plan.stages[stage].devices = devices_of(path_[stage]);
    if (!is_wanted(space_, plan)) return;
    std::set<std::vector<Recompute>> seen;
    simulate(plan, seen);
  }

  /// Chooses the least recomputation that may fit; false if there is none. Each device has one
  /// stage, so the clock of that stage's degree suffices for its memory.
  bool choose_recomputation(Layout& layout) {
    for (std::size_t stage = 0; stage < path_.size(); ++stage) {
      FastClock& clock = *clocks_[index(kind_of(path_[stage]).setting)];
      const auto may_fit = [&](Recompute recompute) {
        layout.recompute[stage] = recompute;
        return space_.allows(recompute) && clock.may_fit(layout, static_cast<int>(stage));
      };
      if (!may_fit(Recompute::none) && !may_fit(Recompute::full)) return false;
    }
    return true;
  }

  /// The devices of the stage, replica by replica.
  std::vector<std::vector<int>> devices_of(const Place& place) const {
    const StageKind& kind = kind_of(place);
    std::vector<std::vector<int>> devices;
    for (int replica = 0; replica < kind.replicas; ++replica) {
      auto& peers = devices.emplace_back(index(bounds_.setting(kind).peers));
      std::iota(peers.begin(), peers.end(),
                space_.lead(bounds_.finest(), place.device + replica * kind.span));
    }
    return devices;
  }

  /// Simulates the plan. If it does not fit, although the bounds allowed it, tries the plans in
  /// which one more stage recomputes.
  void simulate(Plan& plan, std::set<std::vector<Recompute>>& seen) {
    std::vector<Recompute> choices;
    std::int64_t chunks = 0;
    for (const Stage& stage : plan.stages) {
      choices.push_back(stage.recompute);
      chunks += std::ssize(stage.devices);
    }
    if (seen.size() >= most_cases) complete_ = false;
    if (gives_up() || seen.size() >= most_cases || !seen.insert(choices).second) return;
    effort_.spend(2 * steps_per_simulated_instruction * plan.batch.microbatches * chunks);
    const Candidate candidate = space_.evaluate(std::string(name_of_searched), plan);
    ++counts_.candidates;
    if (is_undecided(candidate)) complete_ = false;
    if (!candidate.prediction) return;
    board_.add(candidate);
    if (candidate.prediction->fits || !space_.allows(Recompute::full)) return;
    for (Stage& stage : plan.stages) {
      if (stage.recompute == Recompute::full || stage.layers.size() == 0) continue;
      stage.recompute = Recompute::full;
      simulate(plan, seen);
      stage.recompute = Recompute::none;
    }
  }

  const SearchControl& control_;
  Leaderboard& board_;
  SearchCounts& counts_;
  Effort& effort_;
  Wanted wanted_;
  std::vector<std::unique_ptr<FastClock>> clocks_;  ///< one for each setting
  bool complete_ = true;
};

/// Fills the tables for plans of at most this time, and charges the effort. False if there are no
/// such plans.
bool probe(ChainBounds& bounds, Time at, const SearchControl& control, Effort& effort) {
  const std::int64_t before = bounds.looked_at();
  const bool is_open = bounds.probe(at, control.stop);
  effort.spend(steps_per_entry * (bounds.looked_at() - before));
  return is_open;
}

/// Enumerates the group with half of the effort. Returns whether the enumeration was complete.
bool walk_group(MixedWalk& walk, Effort& effort) {
  walk.try_best();
  const std::int64_t reserve = effort.left / 2;
  effort.left -= reserve;
  const bool is_complete = walk.walk_all();
  effort.left = std::max<std::int64_t>(effort.left, 0) + reserve;
  return is_complete;
}

/// Searches one group. Returns a lower bound on its plans, except those on the board.
Time search_group(const Space& space, const SearchControl& control, const Settings& settings,
                  Leaderboard& board, SearchCounts& counts, Effort& effort) {
  ChainBounds bounds(space, settings);
  const auto limit = [&] { return limit_of(Wanted::best, control, board); };
  if (bounds.least() > limit()) return bounds.least();
  if (!probe(bounds, limit(), control, effort)) return limit() + 1;
  MixedWalk walk(space, control, bounds, board, counts, effort, Wanted::best);
  if (walk_group(walk, effort)) return limit() + 1;
  const Time least = bounds.least(), high = limit(), enough = (high - least) / narrow_steps;
  return raise_by_bisection(
      least, high, [&](Time low, Time& top) { return top - low > enough && !effort.is_spent(); },
      [&](Time middle) { return probe(bounds, middle, control, effort); });
}

/// If the board shows several plans, searches for those behind the best one.
void fill_board(const Space& space, const SearchControl& control, const Settings& settings,
                Leaderboard& board, SearchCounts& counts, Effort& effort) {
  const Time limit = limit_of(Wanted::shown, control, board);
  const bool has_seen_them = limit <= limit_of(Wanted::best, control, board);
  if (has_seen_them || effort.is_spent()) return;
  ChainBounds bounds(space, settings);
  if (bounds.least() > limit || !probe(bounds, limit, control, effort)) return;
  MixedWalk walk(space, control, bounds, board, counts, effort, Wanted::shown);
  walk_group(walk, effort);
}

}  // namespace

Searched search_mixed_degrees(const Space& space, const SearchControl& control,
                              Leaderboard& board) {
  const Duration by_work{ColumnBounds(space).least_of_any_kind()};
  Effort effort{.left = std::min(effort_in_all, control.effort.value_or(INT64_MAX) / 4),
                .stop = control.stop};
  Searched searched;
  Time least = never;
  std::vector<Settings> known;
  for (const Settings& settings : groups_of(space)) {
    if (!ChainBounds::applies(space, settings) || effort.is_spent()) {
      least = std::min<Time>(least, by_work.count());
      continue;
    }
    least = std::min(least, search_group(space, control, settings, board, searched.counts, effort));
    known.push_back(settings);
  }
  // The proof comes first, then the other plans to show.
  for (const Settings& settings : known)
    fill_board(space, control, settings, board, searched.counts, effort);
  // The bound need not exceed the cutoff; with no plan at all, it is infinite.
  least = std::min(least, limit_of(Wanted::best, control, board) + 1);
  const bool is_more = Duration{least} > by_work;
  searched.bounds.add(
      {.family = PlanFamily::several_degrees,
       .lower_bound = least == never ? Duration::max() : std::max(by_work, Duration{least}),
       .rests_on =
           std::string(is_more ? relaxation::degrees_of_their_own : relaxation::work_of_any_plan)});
  return searched;
}

bool has_several_degrees(const Space& space) {
  if (has_equal_stages(space.problem())) return false;
  const auto& settings = space.settings();
  return std::any_of(settings.begin(), settings.end(), [&](const Setting& setting) {
    return setting.peers != settings.front().peers;
  });
}

bool is_mixed_chain(const Space& space, const Plan& plan) {
  if (has_equal_stages(space.problem())) return false;
  const auto& settings = space.settings();
  const bool is_asked = std::any_of(settings.begin(), settings.end(), [&](const Setting& setting) {
    return setting.schedule.name == plan.schedule.name &&
           setting.microbatch == plan.batch.microbatch && setting.replicas == plan.replicas &&
           space.is_of(setting, plan);
  });
  if (!is_asked || plan.order != space.problem().order || plan.schedule.virtual_stages != 1)
    return false;
  int next = 0;
  std::set<std::size_t> degrees;
  for (const Stage& stage : plan.stages) {
    for (const std::vector<int>& replica : stage.devices) {
      if (replica.size() != stage.devices.front().size()) return false;
      degrees.insert(replica.size());
      for (const int device : replica) {
        if (device != next++) return false;
      }
    }
  }
  return degrees.size() > 1;
}

}  // namespace stagecraft
