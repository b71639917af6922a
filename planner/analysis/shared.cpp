#include "planner/analysis/shared.hpp"

#include <algorithm>
#include <array>

#include "planner/analysis/risk.hpp"
#include "planner/analysis/side_by_side.hpp"
#include "planner/space/space.hpp"
#include "profiles/abandonment.hpp"
#include "profiles/error.hpp"
#include "profiles/units.hpp"
#include "simulator/engines/events.hpp"

namespace stagecraft {

namespace {

/// Of the plans that each of the two searches finds, so many are looked at, fewer on many devices,
/// and so many of these improved.
constexpr int plans_looked_at = 16, plans_of_many_devices = 3;
constexpr std::size_t plans_improved = 2;

/// No column stands for others that share its links, so every device is simulated.
constexpr int many_devices = 128, most_shared_devices = 1024;

/// Its simulations of all moves of a cut, over and over, take no longer than the searches.
constexpr int most_moves = 400;

/// Links out of each part of a level as what all who share them get at the same time.
Problem with_parts_of_links(Problem problem, const LinkSharing& sharing) {
  int inside = device_count(problem.cluster);
  for (Level& level : problem.cluster.levels) {
    inside /= level.count;  // devices of each of its parts
    Bandwidth& bandwidth = level.link.point_to_point;
    if (inside <= 1 || bandwidth.is_unlimited()) continue;
    const int sharers = std::min(inside, sharing.devices_per_link.value_or(inside));
    bandwidth.bytes_per_second = std::max<std::int64_t>(1, bandwidth.bytes_per_second / sharers);
  }
  return problem;
}

/// A candidate with its step under shared links.
struct Judged {
  Candidate candidate;
  Duration step{0};
};

class Judgement {
 public:
  Judgement(const Problem& problem, const LinkSharing& sharing)
      : problem_(problem), space_(problem), sharing_(sharing) {}

  void judge(const std::vector<Candidate>& plans, const std::stop_token& stop) {
    for (Candidate candidate : plans) {
      if (!candidate.prediction || (stop.stop_requested() && !judged_.empty())) continue;
      // Bounds of a search under other conditions prove nothing here.
      candidate.plan.search.reset();
      candidate.plan.predicted.reset();
      const auto same = [&](const Judged& other) { return other.candidate.plan == candidate.plan; };
      if (std::ranges::any_of(judged_, same)) continue;
      try {
        add(std::move(candidate));
      } catch (const Abandoned&) {
        break;
      }
    }
    std::ranges::stable_sort(judged_, {}, &Judged::step);
  }

  /// The best ones, a cut at a time.
  void improve(const std::stop_token& stop) {
    const std::size_t count = std::min(judged_.size(), plans_improved);
    const std::vector<Judged> best(judged_.begin(),
                                   judged_.begin() + static_cast<std::ptrdiff_t>(count));
    for (const Judged& start : best) {
      Judged found = start;
      int moves = 0;
      for (bool better = true; better && moves < most_moves && !stop.stop_requested();) {
        better = false;
        for (std::size_t stage = 1; stage < found.candidate.plan.stages.size(); ++stage) {
          for (const int by : {-3, 3, -1, 1}) {
            if (stop.stop_requested()) break;
            better = move_cut(found, stage, by) || better;
            ++moves;
          }
        }
      }
      if (found.step < start.step) judged_.push_back(found);
    }
    std::ranges::stable_sort(judged_, {}, &Judged::step);
  }

  std::vector<Judged> take() { return std::move(judged_); }

 private:
  void add(Candidate candidate) {
    std::optional<Abandonable> may_be_given_up;
    if (!judged_.empty()) may_be_given_up.emplace();
    const bool fits = candidate.prediction->fits;
    candidate.prediction = predict(candidate.plan, compile_for(problem_, candidate.plan));
    candidate.prediction->fits = fits;
    const Duration step = step_with_shared_links(problem_, candidate.plan, sharing_);
    judged_.push_back({std::move(candidate), step});
  }

  bool move_cut(Judged& found, std::size_t stage, int by) {
    Plan plan = found.candidate.plan;
    LayerRange& before = plan.stages[stage - 1].layers;
    LayerRange& here = plan.stages[stage].layers;
    before.end = here.first = here.first + by;
    const bool is_cut = before.size() >= 1 && here.size() >= 1 &&
                        plan.stages[stage].again.empty() && plan.stages[stage - 1].again.empty();
    if (!is_cut || !plan.order.empty()) return false;
    if (!space_.allows(static_cast<int>(stage) - 1, before) ||
        !space_.allows(static_cast<int>(stage), here)) {
      return false;
    }
    Candidate candidate = space_.evaluate(found.candidate.name, plan);
    if (!candidate.prediction || !candidate.prediction->fits) return false;
    if (candidate.prediction->step >= found.step) return false;  // sharing only adds to it
    const Duration step = step_with_shared_links(problem_, plan, sharing_);
    if (step >= found.step) return false;
    found = {std::move(candidate), step};
    return true;
  }

  const Problem& problem_;
  Space space_;
  LinkSharing sharing_;
  std::vector<Judged> judged_;
};

}  // namespace

Duration step_with_shared_links(const Problem& problem, const Plan& plan,
                                const LinkSharing& sharing) {
  const Compiled compiled = compile(plan, in_plan_order(problem.profile, plan), problem.cluster);
  Environment environment;
  environment.network =
      shared_network(compiled.program, compiled.costs, compiled.devices, problem.cluster, sharing);
  return step_time(simulate_events(compiled.program, compiled.costs, environment));
}

SearchResult search_with_shared_links(Search search, const Problem& problem,
                                      const SearchControl& control, const LinkSharing& sharing) {
  if (problem.objective != ObjectiveKind::step)
    fail_usage("--sharing chooses by the step; it goes with --objective step alone");
  const int devices = available_devices(problem);
  if (devices > most_shared_devices) {
    fail_usage("--sharing simulates every device, of ", most_shared_devices, " at most; found ",
               devices);
  }
  SearchControl wide = control;
  wide.top =
      std::max(control.top, devices > many_devices ? plans_of_many_devices : plans_looked_at);
  const std::array problems{problem, with_parts_of_links(problem, sharing)};
  std::vector<SearchResult> found = search_side_by_side(search, problems, wide);
  SearchResult result = std::move(found.front());
  if (result.plans.empty()) return result;
  const SearchResult& slow = found.back();
  Judgement judgement(problem, sharing);
  judgement.judge(result.plans, control.stop);
  judgement.judge(slow.plans, control.stop);
  if (devices <= many_devices) judgement.improve(control.stop);
  std::vector<Judged> judged = judgement.take();
  result.plans.clear();
  for (Judged& each : judged) {
    if (static_cast<int>(result.plans.size()) == control.top) break;
    each.candidate.plan.predicted =
        predicted_figures(each.candidate.plan, *each.candidate.prediction);
    each.candidate.prediction->notes.push_back(concat("where links are shared the step takes ",
                                                      format_duration(each.step),
                                                      "; plans were chosen by that"));
    result.plans.push_back(std::move(each.candidate));
  }
  result.candidates += slow.candidates;
  result.pruned += slow.pruned;
  result.interrupted = result.interrupted || slow.interrupted;
  const Duration step = judged.front().step;
  result.lower_bound = std::min(result.lower_bound, step);  // but for nanoseconds of rounding
  result.proved_optimal = step == result.lower_bound;
  result.question.reset();
  result.gap = step.count() > 0 ? seconds(step - result.lower_bound) / seconds(step) : 0;
  return result;
}

}  // namespace stagecraft
