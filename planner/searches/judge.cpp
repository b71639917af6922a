#include "planner/searches/judge.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/layouts/layouts.hpp"
#include "planner/objective.hpp"

namespace stagecraft {

namespace {

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

/// Recomputing says nothing where there are no layers.
bool is_empty(const Layout& layout, int stage) {
  return layout.cuts[index(stage)] == layout.cuts[index(stage) + 1];
}

/// The plan for fewer microbatches, if they are many: what is in flight is the same soon, and so
/// are peaks, in all that tests have tried. Empty if they are few.
std::optional<Plan> shorter(const Setting& setting, Plan plan, int pipeline_devices) {
  constexpr int fills = 4;  // of the pipeline
  int microbatches = setting.microbatches;
  while (microbatches % 2 == 0 && microbatches / 2 >= fills * pipeline_devices) microbatches /= 2;
  const int times = setting.microbatches / microbatches;
  constexpr int worth = 4;
  if (times < worth || !setting.drains) return {};
  plan.batch.microbatches /= times;
  plan.batch.global /= times;
  return plan;
}

/// More than this many ways to recompute one partition are not worth it.
constexpr std::size_t most_cases = 256;

}  // namespace

std::int64_t instructions_of(const Setting& setting, const Layout& layout) {
  const bool split = setting.replicas == ReplicaPolicy::split;
  const int chunks = std::accumulate(layout.replicas.begin(), layout.replicas.end(), 0) *
                     setting.schedule.virtual_stages;
  return std::int64_t{2} * setting.microbatches * (split ? chunks : layout.stages());
}

std::vector<Bytes> bytes_over(const Setting& setting, const Candidate& candidate) {
  const std::vector<Stage>& stages = candidate.plan.stages;
  const std::vector<int> leads = lead_devices(candidate.plan);
  const auto depth = static_cast<int>(stages.size()) / std::max(setting.schedule.virtual_stages, 1);
  std::vector<Bytes> over(index(depth));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    Bytes& most = over[index(setting.device_of(static_cast<int>(s), depth))];
    for (const std::vector<int>& replica : stages[s].devices) {
      const auto place = std::ranges::lower_bound(leads, replica.front()) - leads.begin();
      most =
          std::max(most, candidate.prediction->peaks[index(static_cast<int>(place))].bytes -
                             candidate.prediction->memory_limits[index(static_cast<int>(place))]);
    }
  }
  return over;
}

struct Judge::Case {
  FastClock& clock;
  const Setting& setting;
  Layout layout;
  Time limit;
  std::set<std::vector<Recompute>> seen;
  bool once = false;
  bool proves = false;           ///< whether it fits must be certain
  std::vector<Bytes> over = {};  ///< its limit each pipeline device was, where it did not fit
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

bool Judge::consider(FastClock& clock, const Setting& setting, Layout layout, Time limit) {
  if (clock.order_for(layout.replicas) == nullptr) return true;
  Case what{clock, setting, std::move(layout), limit, {}};
  return choose_for_device(what, 0);
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
    choose_for_device(what, 0);
    return over;
  }
  choose_for_device(what, 0);
  return std::move(what.over);
}

/// Recomputation only adds time, so of the ways that may fit, only those matter that cannot
/// recompute less.
bool Judge::choose_for_device(Case& what, int pipeline_device) {
  Layout& layout = what.layout;
  if (pipeline_device == layout.pipeline_devices()) return simulate(what);
  const bool may_keep = space_.allows(Recompute::none);
  const std::vector<Recompute> before = layout.recompute;
  std::vector<int> stages;
  for (int s = 0; s < layout.stages(); ++s) {
    if (what.setting.device_of(s, layout.pipeline_devices()) != pipeline_device) continue;
    if (is_empty(layout, s)) {
      layout.recompute[index(s)] = may_keep ? Recompute::none : Recompute::full;
    } else {
      stages.push_back(s);
    }
  }
  const bool may_recompute = space_.allows(Recompute::full);
  const unsigned all = (1u << stages.size()) - 1;
  std::vector<unsigned> fitting;
  bool complete = true;
  for (unsigned choice = may_keep ? 0 : all; choice <= (may_recompute ? all : 0); ++choice) {
    // In counting order every set comes after its subsets.
    const auto contains = [&](unsigned other) { return (choice & other) == other; };
    if (std::any_of(fitting.begin(), fitting.end(), contains)) continue;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const bool again = ((choice >> i) & 1u) != 0;
      layout.recompute[index(stages[i])] = again ? Recompute::full : Recompute::none;
    }
    if (!what.clock.may_fit(layout, pipeline_device)) continue;
    fitting.push_back(choice);
    complete = choose_for_device(what, pipeline_device + 1) && complete;
    if (what.once) break;
  }
  layout.recompute = before;
  return complete;
}

/// In a short run, where simulating all of it takes long.
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
  // The clock knows steps; a steady state may be faster.
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
  // The estimate was too kind: anything that recomputes more might still fit.
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

}  // namespace stagecraft
