#include <algorithm>

#include "planner/column_search.hpp"
#include "planner/layouts.hpp"

namespace stagecraft {

namespace {

constexpr std::int64_t most_samples = 4;  // of a microbatch, per replica

/// The best of a name, by the fast clock.
struct Choice {
  std::string name;
  Setting setting;
  Layout layout;
  std::int64_t step = never;
  bool fits = false;
};

/// Everything recomputes, if nothing fits otherwise.
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

}  // namespace

std::vector<Candidate> usual_columns(const Space& space, const std::stop_token& stop) {
  std::vector<Choice> best;
  const auto stops = [&] {
    return stop.stop_requested() && std::ranges::any_of(best, &Choice::fits);
  };
  for (const Setting& base : space.settings()) {
    const bool plain = base.schedule.virtual_stages == 1 && is_chain(base);
    if (!plain || base.replicas != ReplicaPolicy::split || !is_wide(space, base)) continue;
    for (const Setting& setting : space.columns(base)) {
      if (!is_usual(space, setting)) continue;
      if (stops()) break;
      Choice choice = choose(space, setting);
      if (choice.step == never) continue;
      const auto same = std::find_if(
          best.begin(), best.end(), [&](const Choice& other) { return other.name == choice.name; });
      if (same == best.end()) {
        best.push_back(std::move(choice));
      } else if (is_preferred(choice, *same)) {
        *same = std::move(choice);
      }
    }
  }
  std::vector<Candidate> candidates;
  for (const Choice& choice : best) {
    candidates.push_back(space.evaluate(choice.name, space.plan(choice.setting, choice.layout)));
  }
  return candidates;
}

}  // namespace stagecraft
