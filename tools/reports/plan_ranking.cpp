#include "tools/reports/plan_ranking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/analysis/answers.hpp"
#include "planner/costs/stage_recompute.hpp"
#include "planner/problem/objective.hpp"
#include "tools/reports/results.hpp"
#include "tools/table.hpp"

namespace stagecraft {

namespace {

std::string stages_of(const Plan& plan) {
  std::string text;
  for (const Stage& stage : plan.stages) {
    text += fmt::format("{}{}", text.empty() ? "" : "|", stage.layers.size());
    if (stage.devices.size() > 1) text += fmt::format("x{}", stage.devices.size());
    if (recompute_in_words(stage) != "none") text += "r";
  }
  // A long pipeline is told by its length.
  return text.size() <= 32 ? text : fmt::format("{} stages", plan.stages.size());
}

std::string devices_of(const Plan& plan) {
  const std::size_t count = used_devices(plan).size();
  return tensor_degree(plan) == 1 ? fmt::format("{}", count)
                                  : fmt::format("{} (tp {})", count, tensor_degrees(plan));
}

std::string schedule_of(const Plan& plan) {
  const ScheduleChoice& choice = plan.schedule;
  return choice.virtual_stages == 1 ? choice.name
                                    : fmt::format("{} x{}", choice.name, choice.virtual_stages);
}

/// The cells that rankings and fronts have in common.
std::vector<std::string> description(const Candidate& candidate) {
  const Plan& plan = candidate.plan;
  const bool knows_bytes = !candidate.prediction->peaks.empty();
  return {stages_of(plan), devices_of(plan), fmt::format("{}", plan.batch.microbatch),
          schedule_of(plan), knows_bytes ? format_bytes(largest_peak(candidate)) : "-"};
}

std::string bar(double part, bool unicode) {
  constexpr double width = 20;
  const int cells = std::clamp(static_cast<int>(std::lround(part * width)), 1, 20);
  std::string text;
  for (int i = 0; i < cells; ++i) text += unicode ? "█" : "#";
  return text;
}

}  // namespace

double worse_by(const Problem& problem, const Candidate& candidate, const Candidate& best) {
  const bool costs = problem.objective == ObjectiveKind::cost;
  const auto measure = [&](const Candidate& of) {
    return seconds(pace(*of.prediction)) * (costs ? price_per_hour(problem, of.plan) : 1);
  };
  return measure(best) > 0 ? measure(candidate) / measure(best) - 1 : 0;
}

std::string ranking_table(const Problem& problem, const SearchResult& search, bool unicode) {
  const bool costs = problem.objective == ObjectiveKind::cost;
  Table table({">rank", costs ? ">cost" : ">step", costs ? ">more by" : ">slower by", "stages",
               ">devices", ">microbatch", "schedule", ">peak"});
  for (std::size_t i = 0; i < search.plans.size(); ++i) {
    const Candidate& plan = search.plans[i];
    std::vector<std::string> cells{
        fmt::format("{}", i + 1),
        costs ? readable(objective_of(problem, plan, search).value, 5)
              : format_duration(pace(*plan.prediction)),
        i == 0 ? "" : signed_percent(worse_by(problem, plan, search.plans.front()))};
    for (std::string& cell : description(plan)) cells.push_back(std::move(cell));
    table.row(std::move(cells));
  }
  return table.text(unicode) + "stages: layers, xN replicated, r recomputing\n";
}

std::string front_table(const SearchResult& search, bool unicode) {
  Table table(
      {">plan", "stages", ">devices", ">microbatch", "schedule", ">peak", "", ">samples/s", ""});
  const auto most_bytes =
      static_cast<double>(std::max<Bytes>(largest_peak(search.plans.front()), 1));
  const double most = search.plans.front().prediction->samples_per_second;
  for (std::size_t i = 0; i < search.plans.size(); ++i) {
    const Candidate& candidate = search.plans[i];
    const double rate = candidate.prediction->samples_per_second;
    std::vector<std::string> cells{fmt::format("{}", i + 1)};
    for (std::string& cell : description(candidate)) cells.push_back(std::move(cell));
    cells.push_back(bar(static_cast<double>(largest_peak(candidate)) / most_bytes, unicode));
    cells.push_back(readable(rate));
    cells.push_back(bar(most > 0 ? rate / most : 0, unicode));
    table.row(std::move(cells));
  }
  return "memory against throughput: none of these is beaten in both, and each has at least a "
         "sixteenth "
         "less memory than the one above\n" +
         table.text(unicode) + "stages: layers, xN replicated, r recomputing\n";
}

}  // namespace stagecraft
