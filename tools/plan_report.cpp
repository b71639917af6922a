#include "tools/plan_report.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "tools/results.hpp"
#include "tools/table.hpp"

namespace stagecraft {

namespace {

using nlohmann::ordered_json;

ordered_json plan_json(const Plan& plan) {
  return ordered_json::parse(write_plan(plan));
}

/// What the strategy minimised, in its own cost model or in ours.
ordered_json objective_json(const Objective& objective) {
  return {{"name", objective.name}, {"value", objective.value}, {"unit", objective.unit}};
}

Objective objective_of(const Candidate& candidate, const SearchResult& search) {
  if (candidate.objective) return *candidate.objective;
  return {.name = "step",
          .value = seconds(candidate.prediction->step),
          .lower_bound = seconds(search.lower_bound)};
}

void add_prediction(ordered_json& json, const Candidate& candidate) {
  const Prediction& prediction = *candidate.prediction;
  json["step_ns"] = prediction.step.count();
  json["samples_per_second"] = prediction.samples_per_second;
  json["tokens_per_second"] = prediction.tokens_per_second;
  json["bubble"] = prediction.bubble;
  json["peak_memory_bytes"] = device_peaks(candidate.plan, prediction);
  json["fits"] = prediction.fits;
}

/// Without a prediction, a plan of another planner that our evaluator cannot run, and why not.
ordered_json candidate_json(const Candidate& candidate, const SearchResult& search) {
  const Objective objective = objective_of(candidate, search);
  ordered_json json{{"plan", plan_json(candidate.plan)}};
  if (candidate.prediction) {
    add_prediction(json, candidate);
  } else {
    json["rejected"] = candidate.rejected;
  }
  json["uses_devices"] = used_devices(candidate.plan).size();
  json["objective"] = objective_json(objective);
  json["lower_bound"] = objective.lower_bound;
  json["gap"] = search.gap;
  if (!search.scope.empty()) json["scope"] = search.scope;
  json["proved_optimal"] = search.proved_optimal;
  return json;
}

/// The usual choices beside the best plan: name, step, does it fit, slower by.
ordered_json alternatives_json(const std::vector<Candidate>& alternatives, Duration best) {
  ordered_json rows = ordered_json::array();
  for (const Candidate& candidate : alternatives) {
    ordered_json row{{"name", candidate.name}};
    if (candidate.prediction) {
      row["step_ns"] = candidate.prediction->step.count();
      row["fits"] = candidate.prediction->fits;
      row["slower_by"] = seconds(candidate.prediction->step) / seconds(best) - 1;
    } else {
      row["fits"] = false;
      row["rejected"] = candidate.rejected;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string alternatives_text(const std::vector<Candidate>& alternatives, Duration best) {
  std::string text = "compared with\n";
  for (const Candidate& candidate : alternatives) {
    const std::string answer =
        !candidate.prediction
            ? "not possible: " + candidate.rejected
            : fmt::format("{:>9}  {:>8}{}", format_duration(candidate.prediction->step),
                          signed_percent(seconds(candidate.prediction->step) / seconds(best) - 1),
                          candidate.prediction->fits ? "" : "   does not fit");
    text += fmt::format("  {:<28} {}\n", candidate.name, answer);
  }
  return text;
}

std::string certificate_sentence(const SearchResult& search) {
  const std::string among = search.scope.empty() ? "" : " among " + search.scope;
  if (search.proved_optimal)
    return fmt::format("optimal: proved over {} simulated and {} discarded candidates{}",
                       search.candidates, search.pruned, among);
  return fmt::format("within {} of the optimum ({} simulated, {} discarded{}){}",
                     percent(search.gap), search.candidates, search.pruned,
                     search.interrupted ? ", stopped early" : "", among);
}

std::string objective_sentence(const SearchResult& search, const Objective& objective) {
  return fmt::format("by {}: {} {:.6g} {} ({})\n", search.strategy, objective.name, objective.value,
                     objective.unit,
                     search.proved_optimal ? "proved the least in its own cost model"
                                           : fmt::format("at least {:.6g} {} in its own cost model",
                                                         objective.lower_bound, objective.unit));
}

/// The stages alone: our evaluator could not run them.
void print_unscored(Console& console, const SearchResult& search) {
  const Candidate& best = search.plans.front();
  for (std::size_t s = 0; s < best.plan.stages.size(); ++s) {
    const Stage& stage = best.plan.stages[s];
    console.print(fmt::format("stage {}: layers {} to {}, replicas {}\n", s, stage.layers.first,
                              stage.layers.end - 1, stage.devices.size()));
  }
  console.print(objective_sentence(search, *best.objective));
  console.note("not simulated: " + best.rejected);
}

/// Why some devices stay idle: only our own search can tell that they would be of no use.
std::string reason_to_stop(const SearchResult& search) {
  if (search.plans.front().objective) return ": that is what " + search.strategy + " chose";
  return search.proved_optimal ? ": more would not be faster" : ": nothing faster was found";
}

void print_for_people(Console& console, const Problem& problem, const SearchResult& search,
                      const std::vector<Candidate>& alternatives,
                      const std::vector<Binding>& limits) {
  const Candidate& best = search.plans.front();
  const int available = device_count(problem.cluster);
  const int used = static_cast<int>(used_devices(best.plan).size());
  if (used < available)
    console.print(fmt::format("uses {} of the cluster's {} devices{}\n", used, available,
                              reason_to_stop(search)));
  if (!best.prediction->fits) console.print("does not fit in memory\n");
  console.print(plan_sentence(best.plan) + "\n" + prediction_sentence(*best.prediction) + "\n");
  const Model model = in_plan_order(problem.profile, best.plan).model;
  console.print(plan_table(best.plan, model, *best.prediction, console.unicode()));
  if (best.objective) console.print(objective_sentence(search, *best.objective));
  for (std::size_t i = 1; i < search.plans.size(); ++i) {
    const Candidate& next = search.plans[i];
    console.print(fmt::format("{}. {}, step {}\n", i + 1, plan_sentence(next.plan),
                              format_duration(next.prediction->step)));
  }
  console.print(alternatives_text(alternatives, best.prediction->step));
  if (!limits.empty()) console.print("what limits it\n");
  for (const Binding& limit : limits)
    console.print(fmt::format("  {:<10} {:<12} {}\n", limit.what, limit.where, limit.value));
  if (!best.objective) console.print(certificate_sentence(search) + "\n");
}
}  // namespace

int report_infeasible(Console& console, const Infeasible& infeasible) {
  const ordered_json result{{"plans", ordered_json::array()},
                            {"infeasible",
                             {{"reason", infeasible.reason},
                              {"short_by_bytes", infeasible.short_by},
                              {"remedies", infeasible.remedies}}}};
  return console.error(Error(ErrorKind::infeasible, infeasible.reason, {}, infeasible.remedies),
                       &result);
}
void report_plans(Console& console, const Problem& problem, const SearchResult& search) {
  const Candidate& best = search.plans.front();
  std::vector<Candidate> alternatives;
  std::vector<Binding> limits;
  if (best.prediction) {
    alternatives = usual_choices(problem);
    limits = binding(problem, best);
    for (const std::string& note : best.prediction->notes) console.note(note);
  }
  const bool written = console.artefact(write_plan(best.plan));
  if (!written && !console.person_reads_output()) {
    console.print(write_plan(best.plan));
  } else if (best.prediction) {
    print_for_people(console, problem, search, alternatives, limits);
  } else {
    print_unscored(console, search);
  }
  ordered_json plans = ordered_json::array();
  for (const Candidate& candidate : search.plans)
    plans.push_back(candidate_json(candidate, search));
  ordered_json bindings = ordered_json::array();
  for (const Binding& limited : limits)
    bindings.push_back(
        {{"what", limited.what}, {"where", limited.where}, {"shadow_price", limited.value}});
  console.result(
      {{"plans", std::move(plans)},
       {"alternatives", best.prediction ? alternatives_json(alternatives, best.prediction->step)
                                        : ordered_json::array()},
       {"binding", std::move(bindings)},
       {"search",
        {{"strategy", search.strategy},
         {"candidates", search.candidates},
         {"pruned", search.pruned}}}});
}

}  // namespace stagecraft
