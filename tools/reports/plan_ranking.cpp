#include "tools/reports/plan_ranking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "planner/analysis/answers.hpp"
#include "planner/costs/stage_recompute.hpp"
#include "planner/plan/plan_words.hpp"
#include "planner/problem/objective.hpp"
#include "profiles/error.hpp"
#include "tools/reports/results.hpp"
#include "tools/table.hpp"

namespace stagecraft {

namespace {

std::string words_of(const Problem& problem, const Candidate& candidate, bool unicode) {
  const Model model = in_plan_order(problem.profile, candidate.plan).model;
  return plan_words(candidate.plan, model, unicode);
}

/// "10|10x2|9r": the layers of each stage; of a long pipeline their number.
std::string stages_of(const Plan& plan) {
  std::string text;
  for (const Stage& stage : plan.stages) {
    text += fmt::format("{}{}", text.empty() ? "" : "|", stage.layers.size());
    if (stage.devices.size() > 1) text += fmt::format("x{}", stage.devices.size());
    if (recompute_in_words(stage) != "none") text += "r";
  }
  return text.size() <= 32 ? text : fmt::format("{} stages", plan.stages.size());
}
constexpr std::string_view legend_of_stages = "stages: layers, xN replicated, r recomputing\n";

/// Whether the words of two plans are the same, so that their stages tell them apart.
bool differ_in_stages(const Problem& problem, const SearchResult& search) {
  std::set<std::string> known;
  return !std::ranges::all_of(search.plans, [&](const Candidate& candidate) {
    return known.insert(words_of(problem, candidate, true)).second;
  });
}

std::string peak_of(const Candidate& candidate) {
  return candidate.prediction->peaks.empty() ? "-" : format_bytes(largest_peak(candidate));
}

/// The devices of each plan, where they differ.
bool differ_in_devices(const SearchResult& search) {
  return std::ranges::any_of(search.plans, [&](const Candidate& candidate) {
    return used_devices(candidate.plan).size() != used_devices(search.plans.front().plan).size();
  });
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
  const bool with_devices = differ_in_devices(search);
  const bool with_stages = differ_in_stages(problem, search);
  std::vector<std::string> headings{">rank", "plan", costs ? ">cost" : ">step",
                                    costs ? ">more by" : ">slower by", ">peak"};
  if (with_devices) headings.emplace_back(">devices");
  if (with_stages) headings.emplace_back("stages");
  Table table(headings);
  for (std::size_t i = 0; i < search.plans.size(); ++i) {
    const Candidate& plan = search.plans[i];
    std::vector<std::string> cells{
        fmt::format("{}", i + 1), words_of(problem, plan, unicode),
        costs ? readable(objective_of(problem, plan, search).value, 5)
              : format_duration(pace(*plan.prediction)),
        i == 0 ? "" : signed_percent(worse_by(problem, plan, search.plans.front())), peak_of(plan)};
    if (with_devices) cells.push_back(fmt::format("{}", used_devices(plan.plan).size()));
    if (with_stages) cells.push_back(stages_of(plan.plan));
    table.row(std::move(cells));
  }
  return concat(table.text(unicode), with_stages ? legend_of_stages : "");
}

std::string front_table(const Problem& problem, const SearchResult& search, bool unicode) {
  constexpr int widest = 10;
  const bool with_stages = differ_in_stages(problem, search);
  std::vector<std::string> headings{"plan", ">peak", "", ">samples/s", ""};
  if (with_stages) headings.emplace_back("stages");
  Table table(headings);
  const auto most_bytes =
      static_cast<double>(std::max<Bytes>(largest_peak(search.plans.front()), 1));
  const double most = search.plans.front().prediction->samples_per_second;
  for (const Candidate& candidate : search.plans) {
    const double rate = candidate.prediction->samples_per_second;
    const auto bytes = static_cast<double>(largest_peak(candidate));
    std::vector<std::string> cells{words_of(problem, candidate, unicode), peak_of(candidate),
                                   bar(bytes / most_bytes, unicode, widest), readable(rate),
                                   bar(most > 0 ? rate / most : 0, unicode, widest)};
    if (with_stages) cells.push_back(stages_of(candidate.plan));
    table.row(std::move(cells));
  }
  return concat(
      "memory against throughput: none of these is beaten in both, and each has at least a "
      "sixteenth less memory than the one above\n",
      table.text(unicode), with_stages ? legend_of_stages : "");
}

}  // namespace stagecraft
