#include "planner/analysis/risk.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "planner/analysis/side_by_side.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "simulator/engines/compiled.hpp"

namespace stagecraft {

namespace {

/// Of the plans that each of the two searches finds, so many are looked at.
constexpr int plans_judged_for_risk = 16;

Duration stretched(Duration time, double factor) {
  return Duration{std::llround(static_cast<double>(time.count()) * factor)};
}

Costs slower_compute(Costs costs, double factor) {
  for (ChunkCosts& chunk : costs.chunks) {
    for (Duration ChunkCosts::*time :
         {&ChunkCosts::forward, &ChunkCosts::backward, &ChunkCosts::backward_input,
          &ChunkCosts::backward_weight, &ChunkCosts::recompute, &ChunkCosts::update})
      chunk.*time = stretched(chunk.*time, factor);
    if (chunk.fused) chunk.fused = stretched(*chunk.fused, factor);
  }
  return costs;
}

Costs slower_messages(Costs costs, double factor) {
  for (ChannelCosts& channel : costs.channels) {
    channel.latency = stretched(channel.latency, factor);
    channel.occupancy = stretched(channel.occupancy, factor);
  }
  for (Duration& group : costs.groups) group = stretched(group, factor);
  return costs;
}

Bandwidth slower(Bandwidth bandwidth, double factor) {
  if (bandwidth.is_unlimited()) return bandwidth;
  const double rate = static_cast<double>(bandwidth.bytes_per_second) / factor;
  return {std::max<std::int64_t>(1, std::llround(rate))};
}

Link slower(const Link& link, double factor) {
  return {.latency = stretched(link.latency, factor),
          .point_to_point = slower(link.point_to_point, factor),
          .collective = slower(link.collective, factor)};
}

Problem with_slower_links(Problem problem, double factor) {
  for (Level& level : problem.cluster.levels) level.link = slower(level.link, factor);
  for (LinkOverride& other : problem.cluster.overrides) other.link = slower(other.link, factor);
  if (problem.profile.hand_over)
    problem.profile.hand_over = slower(*problem.profile.hand_over, factor);
  return problem;
}

/// A candidate with its step at the level.
struct CandidateAtRisk {
  Candidate candidate;
  Duration step{0};
};

void judge(std::vector<CandidateAtRisk>& judged, const std::vector<Candidate>& plans,
           const Problem& problem, const Spreads& spreads, const RiskLevel& level,
           const std::stop_token& stop) {
  for (Candidate candidate : plans) {
    if (!candidate.prediction || (stop.stop_requested() && !judged.empty())) continue;
    // Bounds of a search under other conditions prove nothing here.
    candidate.plan.search.reset();
    candidate.plan.predicted.reset();
    const auto same = [&](const CandidateAtRisk& other) {
      return other.candidate.plan == candidate.plan;
    };
    if (std::ranges::any_of(judged, same)) continue;
    const Compiled compiled = compile_for(problem, candidate.plan);
    const bool fits = candidate.prediction->fits;
    candidate.prediction = predict(candidate.plan, compiled);
    candidate.prediction->fits = fits;
    const Duration step = step_at(compiled, spreads, level.deviations);
    judged.push_back({std::move(candidate), step});
  }
}

double ratio(Duration a, Duration b) {
  return b.count() > 0 ? seconds(a) / seconds(b) : 1.0;
}

}  // namespace

Spreads spreads_for(const Profile& profile, Provenance provenance) {
  const auto usual = std::ranges::find(usual_spreads, provenance, &UsualSpreads::provenance);
  Spreads spreads = usual->spreads;
  if (provenance != Provenance::measured) return spreads;
  constexpr double deviations_between = 2.563;  // p10 and p90
  constexpr double most = 5;                    // a layer that was once held up says no more
  for (const ProfileEntry& entry : profile.entries) {
    for (const LayerCost& layer : entry.layers)
      spreads.compute = std::max(spreads.compute, layer.spread / deviations_between);
  }
  spreads.compute = std::min(spreads.compute, most);
  return spreads;
}

const RiskLevel& risk_level(std::string_view name) {
  std::vector<std::string> known;
  for (const RiskLevel& level : risk_levels) {
    if (level.name == name) return level;
    known.emplace_back(level.name);
  }
  fail_unknown("risk", name, known);
}

std::vector<Duration> steps_at(const Compiled& compiled, const Spreads& spreads,
                               const std::vector<double>& deviations) {
  std::vector<Costs> tables{compiled.costs};
  for (const double each : deviations) {
    tables.push_back(slower_compute(compiled.costs, std::exp(spreads.compute * each)));
    tables.push_back(slower_messages(compiled.costs, std::exp(spreads.communication * each)));
  }
  const std::vector<Duration> steps = CompiledProgram(compiled.program).steps(tables);
  const Duration median = steps.front();
  if (median.count() == 0) return std::vector(deviations.size(), median);
  const auto growth = [&](std::size_t i) { return std::log(ratio(steps[i], median)); };
  std::vector<Duration> result;
  for (std::size_t i = 0; i < deviations.size(); ++i) {
    const double together = std::hypot(growth(2 * i + 1), growth(2 * i + 2));
    result.push_back(stretched(median, std::exp(std::copysign(together, deviations[i]))));
  }
  return result;
}

Duration step_at(const Compiled& compiled, const Spreads& spreads, double deviations) {
  return steps_at(compiled, spreads, {deviations}).front();
}

Bytes memory_at(Bytes bytes, const Spreads& spreads, double deviations) {
  return std::llround(static_cast<double>(bytes) * std::exp(spreads.memory * deviations));
}

StepInterval interval_of(const Compiled& compiled, const Spreads& spreads, const RiskLevel& level) {
  const double ninety = risk_level("p90").deviations;
  const std::vector<Duration> steps =
      steps_at(compiled, spreads, {-ninety, 0, ninety, level.deviations});
  return {.p10 = steps[0], .p50 = steps[1], .p90 = steps[2], .level = steps[3]};
}

RateRange range_of(double rate, const StepInterval& interval) {
  return {.low = rate * ratio(interval.p50, interval.p90),
          .high = rate * ratio(interval.p50, interval.p10)};
}

Spreads spreads_of(const Risk& risk, const Profile& profile, const Compiled& compiled) {
  const Spreads usual = spreads_for(profile, compiled.provenance);
  return {.compute = risk.compute.value_or(usual.compute),
          .communication = risk.communication.value_or(usual.communication),
          .memory = risk.memory.value_or(usual.memory)};
}

Compiled compile_for(const Problem& problem, const Plan& plan) {
  const Profile profile = in_plan_order(problem.profile, plan);
  CostBook book(profile, problem.cluster, book_setting(plan));
  return compile_column(plan, book);
}

SearchResult search_at_risk(Search search, const Problem& problem, const SearchControl& control,
                            const Risk& risk) {
  if (problem.objective != ObjectiveKind::step)
    fail_usage("--risk chooses by the step; it goes with --objective step alone");
  // How sure costs are any plan tells that is near the best.
  constexpr double near = 0.5;
  SearchControl rough = control;
  rough.gap = std::max(control.gap, near);
  SearchResult first = search_for_objective(search, problem, rough);
  if (first.plans.empty()) return first;
  const Spreads spreads =
      spreads_of(risk, problem.profile, compile_for(problem, first.plans.front().plan));
  Problem cautious = problem;
  if (risk.level.deviations > 0)
    cautious.memory_fraction /= std::exp(spreads.memory * risk.level.deviations);
  const double factor = std::exp(spreads.communication * risk.level.deviations);
  SearchControl wide = control;
  wide.top = std::max(control.top, plans_judged_for_risk);
  const std::array problems{cautious, with_slower_links(cautious, factor)};
  std::vector<SearchResult> found = search_side_by_side(search, problems, wide);
  SearchResult result = std::move(found.front());
  if (result.plans.empty()) return result;
  const SearchResult& slow = found.back();
  std::vector<CandidateAtRisk> judged;
  judge(judged, result.plans, problem, spreads, risk.level, control.stop);
  judge(judged, slow.plans, problem, spreads, risk.level, control.stop);
  std::ranges::stable_sort(judged, {}, &CandidateAtRisk::step);
  result.plans.clear();
  for (CandidateAtRisk& each : judged) {
    if (static_cast<int>(result.plans.size()) == control.top) break;
    each.candidate.plan.predicted =
        predicted_figures(each.candidate.plan, *each.candidate.prediction);
    result.plans.push_back(std::move(each.candidate));
  }
  result.candidates += slow.candidates;
  result.pruned += slow.pruned;
  result.proved_optimal = false;
  result.question.reset();
  result.gap = 1 - ratio(result.lower_bound, judged.front().step);
  return result;
}

}  // namespace stagecraft
