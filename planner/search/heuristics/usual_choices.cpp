#include "planner/search/heuristics/usual_choices.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "planner/baselines/pipedream/pipedream_problem.hpp"
#include "planner/layouts/layouts.hpp"
#include "planner/search/heuristics/usual_columns.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/space/setting_kinds.hpp"
#include "planner/space/space.hpp"
#include "planner/timing/fast_clock.hpp"
#include "profiles/abandonment.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// The cuts that come closest to equal shares of parameters.
std::vector<int> cuts_by_parameters(const CostTable& table, int layers, int parts) {
  std::vector<int> cuts{0};
  const auto total = static_cast<double>(table.parameters({0, layers}).all);
  for (int part = 1; part < parts; ++part) {
    const double goal = total * part / parts;
    const auto distance = [&](int cut) {
      return std::abs(static_cast<double>(table.parameters({0, cut}).all) - goal);
    };
    int cut = cuts.back() + 1;
    const int last = layers - (parts - part);
    while (cut < last && distance(cut + 1) < distance(cut)) ++cut;
    cuts.push_back(cut);
  }
  cuts.push_back(layers);
  return cuts;
}

/// A usual choice, before schedule and microbatch size are chosen.
struct UsualChoice {
  std::string name;
  std::vector<int> replicas;
  std::vector<int> cuts;
  bool replicated = false;
};

/// Evaluates the choice, and if it does not fit, with recomputation in all stages.
Candidate evaluate_with_remedy(const Space& space, const Setting& setting,
                               const UsualChoice& choice) {
  Layout layout{.replicas = choice.replicas, .cuts = choice.cuts, .recompute = {}};
  layout.recompute.assign(choice.cuts.size() - 1, Recompute::none);
  Candidate plain = space.evaluate(choice.name, space.plan(setting, layout));
  const bool fits = plain.prediction && plain.prediction->fits;
  if (fits || !plain.prediction || !space.allows(Recompute::full)) return plain;
  layout.recompute.assign(choice.cuts.size() - 1, Recompute::full);
  const Candidate recomputing =
      space.evaluate(choice.name + ", recomputing", space.plan(setting, layout));
  return recomputing.prediction && recomputing.prediction->fits ? recomputing : plain;
}

bool is_better_choice(const Candidate& a, const Candidate& b) {
  if (a.prediction.has_value() != b.prediction.has_value()) return a.prediction.has_value();
  if (!a.prediction) return false;
  if (a.prediction->fits != b.prediction->fits) return a.prediction->fits;
  return pace(*a.prediction) < pace(*b.prediction);
}

std::vector<UsualChoice> choices_for(const Space& space, const Setting& setting) {
  const int layers = space.layers();
  const int devices = space.devices(setting);
  const int stages = std::min(devices, layers);
  std::vector<UsualChoice> choices;
  if (stages > 1) {
    const CostTable& table = space.whole_microbatch(setting, 0);
    const std::vector<int> straight(index(stages), 1);
    choices.push_back({"even split", straight, even_cuts(layers, stages)});
    choices.push_back({"even parameters", straight, cuts_by_parameters(table, layers, stages)});
  }
  if (devices > 1) choices.push_back({"data parallelism", {devices}, {0, layers}, true});
  const bool alone = setting.peers == 1;
  choices.push_back({alone ? "one device" : "tensor parallelism", {1}, {0, layers}});
  return choices;
}

/// The names that are shown.
constexpr std::array names{"even split", "even parameters", "data parallelism", "one device",
                           "tensor parallelism"};

void sort_by_name(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    const auto place = [](const Candidate& candidate) {
      return std::ranges::find_if(
          names, [&](const char* name) { return candidate.name.starts_with(name); });
    };
    return place(a) < place(b);
  });
}

/// Keeps the candidate if it is the best of its name so far.
void compare(std::vector<Candidate>& best, Candidate candidate) {
  const auto same = std::find_if(best.begin(), best.end(), [&](const Candidate& other) {
    return other.name.starts_with(candidate.name) || candidate.name.starts_with(other.name);
  });
  if (same == best.end()) {
    best.push_back(std::move(candidate));
  } else if (is_better_choice(candidate, *same)) {
    *same = std::move(candidate);
  }
}

/// A choice under a setting, with a lower bound on its step.
struct Timed {
  const Setting* setting = nullptr;
  UsualChoice choice;
  Time least = 0;
};

/// Whether timing the choice takes milliseconds, which would add up over all settings.
bool takes_long_to_time(const Setting& setting, const UsualChoice& choice) {
  constexpr std::int64_t most_instructions = 100'000;
  return setting.microbatches * std::ssize(choice.replicas) > most_instructions;
}

/// All choices, the fastest first; those that were not timed come last.
std::vector<Timed> timed_choices(const Space& space, const std::stop_token& stop) {
  std::vector<Timed> all;
  for (const Setting& setting : space.settings()) {
    if (has_many_devices(space, setting)) continue;
    const bool takes_turns = setting.replicas == ReplicaPolicy::round_robin;
    FastClock clock(space, setting);
    for (UsualChoice& choice : choices_for(space, setting)) {
      if (takes_turns && !choice.replicated) continue;
      if (stop.stop_requested() && takes_long_to_time(setting, choice)) {
        all.push_back({&setting, std::move(choice), std::numeric_limits<Time>::max()});
        continue;
      }
      Layout layout{.replicas = choice.replicas, .cuts = choice.cuts, .recompute = {}};
      layout.recompute.assign(choice.cuts.size() - 1, Recompute::none);
      // The fast clock times training steps, not steady states.
      const bool is_known =
          setting.trains && setting.drains && setting.schedule.virtual_stages == 1;
      const bool is_possible = is_known &&
                               choice.replicas.front() <= space.most_replicas(setting) &&
                               clock.order_for(layout.replicas) != nullptr;
      all.push_back({&setting, std::move(choice), is_possible ? clock.step(layout) : 0});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Timed& a, const Timed& b) { return a.least < b.least; });
  return all;
}

/// False if another choice of its name fits and is at least as fast as this one's lower bound.
bool may_be_preferred(const Timed& timed, const std::vector<Candidate>& candidates) {
  return std::ranges::none_of(candidates, [&](const Candidate& other) {
    return other.name.starts_with(timed.choice.name) && other.prediction &&
           other.prediction->fits && pace(*other.prediction).count() <= timed.least;
  });
}

bool has_fitting(const std::vector<Candidate>& candidates) {
  return std::any_of(candidates.begin(), candidates.end(), [](const Candidate& candidate) {
    return candidate.prediction && candidate.prediction->fits;
  });
}

}  // namespace

std::vector<Candidate> usual_choices(const Problem& problem, const std::stop_token& stop,
                                     std::optional<Duration> worth) {
  // The usual choices are shown for comparison, so the problem's constraints do not apply to them.
  Problem free = problem;
  free.straight = false;
  free.other_parallelism.clear();
  free.schedules = plain_choices(free.schedules);
  const Space space(free);
  std::vector<Candidate> candidates;
  const auto stops = [&] {
    return stop.stop_requested() && (is_abandoned() || has_fitting(candidates));
  };
  const bool wide = std::ranges::any_of(
      space.settings(), [&](const Setting& setting) { return has_many_devices(space, setting); });
  for (const Timed& timed : timed_choices(space, stop)) {
    if (stops()) break;
    if (!may_be_preferred(timed, candidates)) continue;
    compare(candidates, timed.setting->schedule.virtual_stages == 1
                            ? evaluate_with_remedy(space, *timed.setting, timed.choice)
                            : Candidate{.name = timed.choice.name,
                                        .plan = {},
                                        .prediction = {},
                                        .objective = {},
                                        .rejected = "the schedules asked for need several stages "
                                                    "per device"});
  }
  sort_by_name(candidates);
  if (wide) {
    for (Candidate& choice : usual_columns(space, stop, worth))
      compare(candidates, std::move(choice));
  } else if (!stops() && problem.excluded.empty()) {
    // PipeDream's optimizer takes the first devices, so it is only asked if no device is excluded.
    if (auto choice = pipedream_choice(free)) candidates.push_back(*std::move(choice));
  }
  return candidates;
}

std::vector<Candidate> usual_choices(const Problem& problem) {
  return usual_choices(problem, {});
}

}  // namespace stagecraft
