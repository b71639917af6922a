#include "planner/search/heuristics/usual_columns.hpp"

#include <algorithm>

#include "planner/layouts/layouts.hpp"
#include "planner/space/setting_kinds.hpp"
#include "profiles/abandonment.hpp"

namespace stagecraft {

namespace {

constexpr std::int64_t most_samples = 4;  // samples of a microbatch, per replica

/// Instructions of one column's schedule that take some tens of milliseconds to simulate.
constexpr std::int64_t few_instructions = 20'000;

/// The best layout of one name, by the fast clock.
struct Choice {
  std::string name;
  Setting setting;
  Layout layout;
  std::int64_t step = never;
  bool fits = false;
};

/// The layout without recomputation if it fits, else with recomputation in all stages.
Choice choose(const Space& space, const Setting& setting) {
  const auto depth = static_cast<std::size_t>(*setting.depth);
  Choice choice{.name = depth == 1 ? "data parallelism" : "even split, copied",
                .setting = setting,
                .layout = {.replicas = std::vector<int>(depth, 1),
                           .cuts = even_cuts(space.layers(), *setting.depth),
                           .recompute = std::vector<Recompute>(depth, Recompute::none)}};
  FastClock clock(space, setting);
  if (clock.order_for(choice.layout.replicas) == nullptr) return choice;
  choice.fits = may_fit(clock, choice.layout);
  if (!choice.fits && space.allows(Recompute::full)) {
    Layout recomputing = choice.layout;
    recomputing.recompute.assign(depth, Recompute::full);
    choice.fits = may_fit(clock, recomputing);
    if (choice.fits) choice.layout = std::move(recomputing);
  }
  choice.step = clock.step(choice.layout);
  return choice;
}

bool is_preferred(const Choice& a, const Choice& b) {
  if (a.fits != b.fits) return a.fits;
  return a.step < b.step;
}

bool is_usual(const Space& space, const Setting& setting) {
  const bool uses_all =
      *setting.depth * setting.columns == space.devices(setting) * setting.columns;
  return uses_all && setting.microbatch <= most_samples;
}

std::int64_t instructions_of(const Setting& setting) {
  return std::int64_t{2} * setting.microbatches * *setting.depth;
}

/// Visits the usual settings of columns, until `visit` ends it.
template <class Visit>
void for_each_usual(const Space& space, const Visit& visit) {
  for (const Setting& base : space.settings()) {
    const bool plain = base.schedule.virtual_stages == 1 && is_chain(base);
    if (!plain || !has_many_devices(space, base)) continue;
    for (const Setting& setting : space.columns(base)) {
      if (is_usual(space, setting) && !visit(setting)) return;
    }
  }
}

}  // namespace

std::optional<Candidate> first_columns(const Space& space) {
  std::optional<Choice> best;
  std::int64_t tried = 0, most = few_instructions;
  for (bool has_larger = true; !best && has_larger; tried = most, most *= 4) {
    has_larger = false;
    for_each_usual(space, [&](const Setting& setting) {
      const std::int64_t instructions = instructions_of(setting);
      has_larger = has_larger || instructions > most;
      if (instructions <= tried || instructions > most) return true;
      Choice choice = choose(space, setting);
      if (choice.fits && (!best || is_preferred(choice, *best))) best = std::move(choice);
      return true;
    });
  }
  if (!best) return {};
  Candidate candidate = space.evaluate(best->name, space.plan(best->setting, best->layout));
  if (!candidate.prediction || !candidate.prediction->fits) return {};
  return candidate;
}

std::vector<Candidate> usual_columns(const Space& space, const std::stop_token& stop,
                                     std::optional<Duration> worth) {
  std::vector<Choice> best;
  const auto stops = [&] {
    return stop.stop_requested() && (is_abandoned() || std::ranges::any_of(best, &Choice::fits));
  };
  for_each_usual(space, [&](const Setting& setting) {
    if (stops()) return false;
    Choice choice = choose(space, setting);
    if (choice.step == never) return true;
    const auto same = std::find_if(best.begin(), best.end(),
                                   [&](const Choice& other) { return other.name == choice.name; });
    if (same == best.end()) {
      best.push_back(std::move(choice));
    } else if (is_preferred(choice, *same)) {
      *same = std::move(choice);
    }
    return true;
  });
  std::vector<Candidate> candidates;
  if (stop.stop_requested()) std::ranges::stable_sort(best, is_preferred);
  for (const Choice& choice : best) {
    if (stop.stop_requested() && !candidates.empty()) break;
    if (worth && (!choice.fits || choice.step > worth->count())) continue;
    candidates.push_back(space.evaluate(choice.name, space.plan(choice.setting, choice.layout)));
  }
  return candidates;
}

}  // namespace stagecraft
