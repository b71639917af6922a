#include "planner/search/evaluator.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "planner/layouts/layouts.hpp"
#include "planner/problem/objective.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Whether the stage has no layers, so that recomputation has no effect on it.
bool is_empty(const Layout& layout, int stage) {
  return layout.cuts[index(stage)] == layout.cuts[index(stage) + 1];
}

/// The plan with fewer microbatches, for checking memory quickly. After a few fills of the
/// pipeline, activations in flight and memory peaks no longer change (held by tests). Empty if the
/// plan has few microbatches already.
std::optional<Plan> shorter(const Setting& setting, Plan plan, int pipeline_devices) {
  constexpr int fills = 4;  // number of pipeline fills that are simulated
  int microbatches = setting.microbatches;
  while (microbatches % 2 == 0 && microbatches / 2 >= fills * pipeline_devices) microbatches /= 2;
  const int times = setting.microbatches / microbatches;
  constexpr int worth = 4;
  if (times < worth || !setting.drains) return {};
  plan.batch.microbatches /= times;
  plan.batch.global /= times;
  return plan;
}

/// Maximum number of choices of recomputation that are tried for one partition.
constexpr std::size_t most_cases = 256;

}  // namespace

struct Judge::Case {
  FastClock& clock;
  const Setting& setting;
  Layout layout;
  Time limit;
  std::set<std::vector<Recompute>> seen;
  bool once = false;
  bool proves = false;           ///< the caller must learn whether the layout fits
  std::vector<Bytes> over = {};  ///< bytes beyond the limit, per pipeline device, of a layout that
                                 ///< did not fit
};

/// The choices of recomputation with which a pipeline device may have room.
struct Judge::Ways {
  std::vector<int> stages;     ///< its stages that have layers
  std::vector<unsigned> sets;  ///< each set: bits of the places in `stages` that recompute
  void recompute(unsigned set, Layout& layout) const {
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const bool again = ((set >> i) & 1u) != 0;
      layout.recompute[index(stages[i])] = again ? Recompute::full : Recompute::none;
    }
  }
};

Time Judge::limit() const {
  const auto threshold = board_.threshold();
  const Time worth = control_.worth ? control_.worth->count() : never;
  return std::min(worth, threshold ? threshold->count() - 1 : never);
}

void Judge::add(const Candidate& candidate) {
  if (!candidate.prediction) return;
  ++simulated_;
  board_.add(candidate);
}

void Judge::take(Judge part) {
  for (const Candidate& candidate : part.board_.take()) board_.add(candidate);
  simulated_ += part.simulated_;
  pruned_ += part.pruned_;
  effort_.spend(part.given_ - part.effort_.left);
}

bool Judge::consider(FastClock& clock, const Setting& setting, Layout layout, Time limit) {
  if (clock.order_for(layout.replicas) == nullptr) return true;
  Case what{clock, setting, std::move(layout), limit, {}};
  return choose_ways(what);
}

bool Judge::consider_as_it_is(FastClock& clock, const Setting& setting, const Layout& layout,
                              Time limit) {
  constexpr std::int64_t steps_per_stage = 20;
  effort_.spend(steps_per_stage * layout.stages());
  if (!may_fit(clock, layout)) return true;
  Case what{.clock = clock,
            .setting = setting,
            .layout = layout,
            .limit = limit,
            .seen = {},
            .once = true,
            .proves = true};
  return simulate(what);
}

std::vector<Bytes> Judge::consider_once(FastClock& clock, const Setting& setting, Layout layout) {
  if (clock.order_for(layout.replicas) == nullptr) return {};
  Case what{.clock = clock,
            .setting = setting,
            .layout = std::move(layout),
            .limit = never,
            .seen = {},
            .once = true};
  const auto is_allowed = [&](Recompute recompute) { return space_.allows(recompute); };
  const bool is_way = std::ranges::all_of(what.layout.recompute, is_allowed);
  if (is_way && may_fit(clock, what.layout)) {
    simulate(what);
    std::vector<Bytes> over = std::exchange(what.over, {});
    choose_ways(what);
    return over;
  }
  choose_ways(what);
  return std::move(what.over);
}

/// Recomputation only adds time, so only the minimal sets of recomputing stages that may fit
/// matter. In counting order every set comes after its subsets.
Judge::Ways Judge::ways_of(Case& what, int pipeline_device) {
  constexpr std::int64_t steps_per_way = 20;
  Layout& layout = what.layout;
  const bool may_keep = space_.allows(Recompute::none);
  const bool may_recompute = space_.allows(Recompute::full);
  Ways ways;
  for (int s = 0; s < layout.stages(); ++s) {
    if (what.setting.device_of(s, layout.pipeline_devices()) != pipeline_device) continue;
    if (is_empty(layout, s)) {
      layout.recompute[index(s)] = may_keep ? Recompute::none : Recompute::full;
    } else {
      ways.stages.push_back(s);
    }
  }
  const unsigned all = (1u << ways.stages.size()) - 1;
  for (unsigned choice = may_keep ? 0 : all; choice <= (may_recompute ? all : 0); ++choice) {
    const auto contains = [&](unsigned other) { return (choice & other) == other; };
    if (std::ranges::any_of(ways.sets, contains)) continue;
    ways.recompute(choice, layout);
    effort_.spend(steps_per_way);
    if (!what.clock.may_fit(layout, pipeline_device)) continue;
    ways.sets.push_back(choice);
    if (what.once) break;
  }
  return ways;
}

/// Tries the combinations of all devices' choices. If one device has no choice, no combination
/// fits.
bool Judge::choose_ways(Case& what) {
  const std::vector<Recompute> before = what.layout.recompute;
  std::vector<Ways> ways;
  for (int device = 0; device < what.layout.pipeline_devices(); ++device) {
    ways.push_back(ways_of(what, device));
    if (ways.back().sets.empty()) break;
  }
  const bool complete = ways.back().sets.empty() || choose_for_devices(what, ways);
  what.layout.recompute = before;
  return complete;
}

bool Judge::choose_for_devices(Case& what, std::span<const Ways> ways) {
  if (ways.empty()) return simulate(what);
  bool complete = true;
  for (const unsigned set : ways.front().sets) {
    // Six choices on each of sixteen devices would be 6^16 combinations.
    if (what.seen.size() >= most_cases) return false;
    ways.front().recompute(set, what.layout);
    complete = choose_for_devices(what, ways.subspan(1)) && complete;
  }
  return complete;
}

/// Simulates the plan with fewer microbatches, if it has many, and returns whether that does not
/// fit.
bool Judge::is_seen_not_to_fit(Case& what, const Plan& plan) {
  const auto run = shorter(what.setting, plan, what.layout.pipeline_devices());
  if (!run) return false;
  const int times = plan.batch.microbatches / run->batch.microbatches;
  effort_.spend(steps_per_simulated_instruction * instructions_of(what.setting, what.layout) /
                times);
  const Candidate candidate = space_.evaluate(std::string(name_of_searched), *run);
  if (!candidate.prediction || candidate.prediction->fits) return false;
  what.over = bytes_over(what.setting, candidate);
  return true;
}

bool Judge::simulate(Case& what) {
  if (what.seen.size() >= most_cases) return false;
  if (!what.seen.insert(what.layout.recompute).second) return true;
  const std::int64_t instructions = instructions_of(what.setting, what.layout);
  effort_.spend(3 * instructions);
  // The fast clock times whole steps; a plan in steady state (one that does not drain) may be
  // faster.
  if (what.setting.drains && what.clock.step(what.layout) > std::min(what.limit, limit())) {
    ++pruned_;
    return true;
  }
  const Plan plan = space_.plan(what.setting, what.layout);
  if (what.once && !what.proves && is_seen_not_to_fit(what, plan)) return true;
  effort_.spend(steps_per_simulated_instruction * instructions);
  const Candidate candidate = space_.evaluate(std::string(name_of_searched), plan);
  if (is_undecided(candidate)) return false;
  add(candidate);
  if (!candidate.prediction || candidate.prediction->fits) return true;
  if (what.once) what.over = bytes_over(what.setting, candidate);
  if (what.once || !space_.allows(Recompute::full)) return true;
  // The estimate of memory was too low: choices that recompute more may still fit.
  bool complete = true;
  for (int s = 0; s < what.layout.stages(); ++s) {
    Recompute& choice = what.layout.recompute[index(s)];
    if (choice == Recompute::full || is_empty(what.layout, s)) continue;
    choice = Recompute::full;
    complete = simulate(what) && complete;
    choice = Recompute::none;
  }
  return complete;
}

std::int64_t share_of_each(std::int64_t left, std::int64_t parts, std::size_t tasks) {
  const std::int64_t together = left - left / 8;
  return std::min(left / parts,
                  together / static_cast<std::int64_t>(std::max<std::size_t>(tasks, 1)));
}

void judge_side_by_side(SpaceWorkers& workers, Judge& judge, std::size_t tasks, std::int64_t effort,
                        const JudgedTask& task) {
  std::vector<std::optional<Judge>> parts(tasks);
  workers.run(static_cast<int>(tasks), [&](const Space& space, int i) {
    const auto own = static_cast<std::size_t>(i);
    if (!judge.stopped()) task(space, parts[own].emplace(judge, space, effort), own);
  });
  for (std::optional<Judge>& part : parts) {
    if (part) judge.take(*std::move(part));
  }
}

}  // namespace stagecraft
