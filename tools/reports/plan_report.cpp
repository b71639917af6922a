#include "tools/reports/plan_report.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "planner/analysis/binding.hpp"
#include "planner/analysis/frameworks.hpp"
#include "planner/analysis/risk.hpp"
#include "planner/analysis/shown_choices.hpp"
#include "planner/analysis/utilisation.hpp"
#include "planner/costs/request_room.hpp"
#include "planner/plan/plan_words.hpp"
#include "planner/problem/constraints.hpp"
#include "planner/problem/objective.hpp"
#include "planner/search/heuristics/warm_starts.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/space/space.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "simulator/analyses/attribution.hpp"
#include "tools/options/degree_choices.hpp"
#include "tools/options/risk_options.hpp"
#include "tools/reports/bound_sentences.hpp"
#include "tools/reports/explanation.hpp"
#include "tools/reports/plan_ranking.hpp"
#include "tools/reports/progress.hpp"
#include "tools/reports/results.hpp"
#include "tools/reports/serving_report.hpp"
#include "tools/table.hpp"

namespace stagecraft {

namespace {

using nlohmann::ordered_json;

ordered_json plan_json(const Plan& plan) {
  return ordered_json::parse(write_plan(plan));
}

ordered_json objective_json(const Objective& objective) {
  return {{"name", objective.name}, {"value", objective.value}, {"unit", objective.unit}};
}

/// The search as it was for this plan: those of a front have a search each.
SearchResult search_for(const Candidate& candidate, const SearchResult& search, bool is_front) {
  SearchResult own;
  own.lower_bound = search.lower_bound;
  own.cost_bound = search.cost_bound;
  if (is_front && candidate.plan.search) own.lower_bound = candidate.plan.search->lower_bound;
  return own;
}

/// How far the plan may be from the best there is: 0 to 1.
double gap_of(const Objective& objective) {
  const double most = std::max(objective.value, objective.lower_bound);
  return most > 0 ? std::abs(objective.value - objective.lower_bound) / most : 0;
}

std::optional<Utilisation> utilisation_of(const Problem& problem, const Candidate& candidate) {
  const Model model = in_plan_order(problem.profile, candidate.plan).model;
  return utilisation_of(candidate.plan, model, problem.cluster, *candidate.prediction);
}

std::optional<RequestRoom> room_of(const Problem& problem, const Candidate& candidate) {
  const Profile ordered = in_plan_order(problem.profile, candidate.plan);
  return room_for_requests(candidate.plan, ordered, problem.cluster);
}

/// Of inference, where something is kept of requests.
std::string room_sentence(const Problem& problem, const Candidate& candidate) {
  const std::optional<RequestRoom> room = room_of(problem, candidate);
  return room ? room_sentence(candidate.plan, problem.cluster, *room) : "";
}

std::optional<ServingTable> serving_of(const Problem& problem, const Candidate& candidate) {
  const Profile ordered = in_plan_order(problem.profile, candidate.plan);
  return serving_for(candidate.plan, ordered, problem.cluster);
}

void add_prediction(ordered_json& json, const Problem& problem, const Candidate& candidate) {
  const Prediction& prediction = *candidate.prediction;
  json["step_ns"] = prediction.step.count();
  if (prediction.steady) json["steady_step_ns"] = prediction.steady->count();
  json["samples_per_second"] = prediction.samples_per_second;
  json["tokens_per_second"] = prediction.tokens_per_second;
  json["bubble"] = prediction.bubble;
  add_utilisation(json, utilisation_of(problem, candidate));
  add_rates(json, candidate.plan, prediction, utilisation_of(problem, candidate));
  const Plan& plan = candidate.plan;
  json["parallelism"] = {
      {"tp", tensor_degree(plan)},           {"pp", pipeline_devices(plan)},
      {"vpp", plan.schedule.virtual_stages}, {"dp", replicas_of_stages(plan).front()},
      {"cp", plan.parallelism.context},      {"ep", plan.parallelism.expert}};
  json["peak_memory_bytes"] = device_peaks(candidate.plan, prediction);
  add_memory_limits(json, candidate.plan, prediction);
  json["fits"] = prediction.fits;
  if (const std::optional<RequestRoom> room = room_of(problem, candidate))
    json["request_room"] = room_json(*room);
}

/// Without a prediction, a plan of another planner that our evaluator cannot run, and why not.
ordered_json candidate_json(const Problem& problem, const Candidate& candidate,
                            const SearchResult& search, bool is_front) {
  const Objective objective =
      objective_of(problem, candidate, search_for(candidate, search, is_front));
  ordered_json json{{"plan", plan_json(candidate.plan)}};
  if (candidate.prediction) {
    add_prediction(json, problem, candidate);
  } else {
    json["rejected"] = candidate.rejected;
  }
  const double gap = candidate.objective ? search.gap : gap_of(objective);
  json["uses_devices"] = used_devices(candidate.plan).size();
  json["objective"] = objective_json(objective);
  json["lower_bound"] = objective.lower_bound;
  json["gap"] = gap;
  if (gap > 0 && !search.rests_on.empty()) json["bound_rests_on"] = search.rests_on;
  if (has_scope(search)) {
    json["scope"] = search.families.scope();
    json["least_of_others_ns"] = search.families.least_left_out().count();
  }
  json["proved_optimal"] =
      candidate.objective ? search.proved_optimal : gap == 0 && !has_scope(search);
  return json;
}

/// Usual choices are told whatever was asked for: those that do not keep to it, by name.
std::set<std::string> not_as_asked(const Problem& problem,
                                   const std::vector<Candidate>& alternatives) {
  const bool asks =
      std::ranges::any_of(wishes, [&](const Wish& wish) { return wish.is_asked(problem); });
  if (!asks && problem.use_fewer_devices) return {};
  const Space space(problem);
  std::set<std::string> names;
  for (const Candidate& candidate : alternatives) {
    if (candidate.prediction && !is_wanted(space, candidate.plan)) names.insert(candidate.name);
  }
  return names;
}

/// The usual choices beside the best plan: name, step, does it fit, is it as asked, slower by.
ordered_json alternatives_json(const Problem& problem, const std::vector<Candidate>& alternatives,
                               Duration best) {
  ordered_json rows = ordered_json::array();
  const std::set<std::string> others = not_as_asked(problem, alternatives);
  for (const Candidate& candidate : alternatives) {
    ordered_json row{{"name", candidate.name}};
    if (candidate.prediction) {
      row["step_ns"] = candidate.prediction->step.count();
      row["fits"] = candidate.prediction->fits;
      row["as_asked"] = !others.contains(candidate.name);
      if (best > Duration{0})
        row["slower_by"] = seconds(pace(*candidate.prediction)) / seconds(best) - 1;
    } else {
      row["fits"] = false;
      row["rejected"] = candidate.rejected;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string alternatives_text(const Problem& problem, const std::vector<Candidate>& alternatives,
                              const Candidate& best) {
  if (alternatives.empty()) return "";
  std::string text =
      problem.objective == ObjectiveKind::cost ? "compared with (cost)\n" : "compared with\n";
  const std::set<std::string> others = not_as_asked(problem, alternatives);
  const auto faults = [&](const Candidate& candidate) -> std::string_view {
    const bool is_other = others.contains(candidate.name);
    if (candidate.prediction->fits) return is_other ? "   not as asked" : "";
    return is_other ? "   does not fit, not as asked" : "   does not fit";
  };
  for (const Candidate& candidate : alternatives) {
    const std::string answer =
        !candidate.prediction
            ? (candidate.rejected.starts_with(not_tried) ? "" : "not possible: ") +
                  candidate.rejected
            : fmt::format("{:>9}  {:>8}{}", format_duration(pace(*candidate.prediction)),
                          signed_percent(worse_by(problem, candidate, best)), faults(candidate));
    text += fmt::format("  {:<28} {}\n", candidate.name, answer);
  }
  return text;
}

ordered_json frameworks_json(const std::vector<const Target*>& frameworks) {
  ordered_json names = ordered_json::array();
  for (const Target* target : frameworks) names.push_back(target->name);
  return names;
}

/// What each framework runs best: name, version, step, slower by, or why it runs nothing.
ordered_json targets_json(const std::vector<FrameworkAnswer>& answers, Duration best) {
  ordered_json rows = ordered_json::array();
  for (const FrameworkAnswer& answer : answers) {
    ordered_json row{{"name", answer.target->name}, {"version", answer.target->version}};
    if (answer.best) {
      const Duration step = pace(*answer.best->prediction);
      row["step_ns"] = answer.best->prediction->step.count();
      if (best > Duration{0}) row["slower_by"] = seconds(step) / seconds(best) - 1;
    } else {
      row["reason"] = answer.reason;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Where the plan can run.
std::string frameworks_sentence(const std::vector<const Target*>& frameworks) {
  std::vector<std::string> names;
  for (const Target* target : frameworks) names.emplace_back(target->name);
  if (names.empty())
    return "runs in: none of the frameworks as it is; --for NAME finds the best plan for one\n";
  return fmt::format("runs in: {}\n", fmt::join(names, ", "));
}

/// Below the plan, a line for each framework.
std::string targets_text(const Problem& problem, const std::vector<FrameworkAnswer>& answers,
                         const Candidate& best) {
  if (answers.empty()) return "";
  std::string text = "the best plan for each framework, by a short search\n";
  for (const FrameworkAnswer& answer : answers) {
    const std::string name = fmt::format("{} {}", answer.target->name, answer.target->version);
    const std::string found =
        answer.best
            ? fmt::format(
                  "{:>9}  {:>8}   --for {}", format_duration(pace(*answer.best->prediction)),
                  signed_percent(worse_by(problem, *answer.best, best)), answer.target->name)
            : answer.reason;
    text += fmt::format("  {:<28} {}\n", name, found);
  }
  return text;
}

/// Whose layers' kernels, and why theirs may be the faster ones: what differs is the attention and
/// the loss, which Megatron-LM computes in more passes unless it is told to fuse them
/// (profiles/operations.cpp).
std::string_view words_of_kernels(Framework kernels) {
  switch (kernels) {
    case Framework::megatron: return "Megatron-LM's kernels, whose attention is faster";
    case Framework::torch: return "PyTorch's kernels, whose loss passes over the logits less often";
  }
  return "";
}

/// What this plan has that the question about none of the frameworks leaves out.
std::string other_assumptions(const Problem& problem, const Plan& plan) {
  std::vector<std::string> words;
  const Framework kernels = plan.kernels.framework;
  if (kernels != problem.kernels.framework) words.emplace_back(words_of_kernels(kernels));
  const std::vector<Sharding> tried = sharding_choices(problem);
  if (std::ranges::find(tried, plan.optimizer.sharding) == tried.end())
    words.push_back(fmt::format("--sharding {}", to_string(plan.optimizer.sharding)));
  return words.empty() ? "by a short search" : fmt::format("with {}", fmt::join(words, ", and "));
}

/// In the first lines: who runs a plan that takes less than this one, if any framework does, and by
/// what.
std::string sentence_on_faster(const Problem& problem, const std::vector<FrameworkAnswer>& answers,
                               const Candidate& best) {
  constexpr double least_shown = 0.0005;  // of what is written as 0.0 %
  const FrameworkAnswer* fastest = nullptr;
  for (const FrameworkAnswer& answer : answers) {
    if (!answer.best || worse_by(problem, *answer.best, best) > -least_shown) continue;
    if (fastest == nullptr || pace(*answer.best->prediction) < pace(*fastest->best->prediction))
      fastest = &answer;
  }
  if (fastest == nullptr) return "";
  return fmt::format("{}, {} takes {} less: --for {}\n",
                     other_assumptions(problem, fastest->best->plan), fastest->target->name,
                     percent(-worse_by(problem, *fastest->best, best)), fastest->target->name);
}

std::string objective_sentence(const SearchResult& search, const Objective& objective) {
  return fmt::format("by {}: {} {} {} ({})\n", search.strategy, objective.name,
                     readable(objective.value, 6), objective.unit,
                     search.proved_optimal
                         ? "proved the least in its own cost model"
                         : fmt::format("at least {} {} in its own cost model",
                                       readable(objective.lower_bound, 6), objective.unit));
}

/// The stages alone: our evaluator could not run them.
void print_unscored(Console& console, const SearchResult& search) {
  const Candidate& best = search.plans.front();
  for (std::size_t s = 0; s < best.plan.stages.size(); ++s) {
    const Stage& stage = best.plan.stages[s];
    const std::string layers =
        stage.layers.size() == 0
            ? "no layers"
            : fmt::format("layers {} to {}", stage.layers.first, stage.layers.end - 1);
    console.print(fmt::format("stage {}: {}, replicas {}\n", s, layers, stage.devices.size()));
  }
  console.print(objective_sentence(search, *best.objective));
  console.note("not simulated: " + best.rejected);
}

/// Why some devices stay idle: only our own search can tell that they would be of no use.
std::string reason_to_stop(const Problem& problem, const SearchResult& search, bool at_risk) {
  if (at_risk) return ": no plan that uses more was found to be safer";
  if (search.plans.front().objective) return ": that is what " + search.strategy + " chose";
  if (problem.devices && *problem.devices < available_devices(problem)) return "";
  const std::string_view than = problem.objective == ObjectiveKind::cost ? "cheaper" : "faster";
  return search.proved_optimal ? fmt::format(": more would not be {}", than)
                               : fmt::format(": nothing {} was found", than);
}

/// What was asked for, if it is not the step, which is shown anyway.
std::string own_objective_sentence(const Problem& problem, const SearchResult& search) {
  const Candidate& best = search.plans.front();
  std::string text;
  if (best.prediction->steady) {
    text = fmt::format("steady state: {} for {} samples\n",
                       format_duration(*best.prediction->steady), best.plan.batch.global);
  }
  if (problem.objective == ObjectiveKind::step) return text;
  const Objective objective = objective_of(problem, best, search);
  const bool most = problem.objective == ObjectiveKind::throughput;
  const bool is_time = problem.objective == ObjectiveKind::latency;
  const auto words = [&](double value) {
    return is_time ? format_duration(Duration{std::llround(value * 1e9)})
                   : fmt::format("{} {}", readable(value, 6), objective.unit);
  };
  const std::string sentence = fmt::format("{} {}", objective.name, words(objective.value));
  if (search.lower_bound <= Duration{0}) return text + sentence + "\n";  // nothing is proved
  const std::string_view none = has_scope(search) ? "none that was searched has" : "no plan has";
  return text + fmt::format("{} ({} {} than {})\n", sentence, none, most ? "more" : "less",
                            words(objective.lower_bound));
}

/// What was planned for, first of all.
std::string sentence_at_risk(const Problem& problem, const Candidate& best, const Risk& risk) {
  const Compiled compiled = compile_for(problem, best.plan);
  const Spreads spreads = spreads_of(risk, problem.profile, compiled);
  const Duration least = shortest_step(*best.prediction, utilisation_of(problem, best));
  return risk_sentence(within_peak(interval_of(compiled, spreads, risk.level), least), spreads,
                       risk.level);
}

/// How far off the rate may be, where nobody planned for that.
std::string likely_range(const Problem& problem, const Candidate& best, const Compiled& compiled) {
  const Spreads spreads = spreads_for(problem.profile, compiled.provenance);
  const Duration least = shortest_step(*best.prediction, utilisation_of(problem, best));
  return range_sentence(*best.prediction,
                        within_peak(interval_of(compiled, spreads, risk_level("p90")), least));
}

void print_limits(Console& console, const std::vector<Binding>& limits) {
  if (!limits.empty()) console.print("what limits it\n");
  for (const Binding& limit : limits) {
    console.print(fmt::format("  {:<12} {:<16} {}\n", limit.what, limit.where, limit.value));
  }
}

/// What a plan is shown with, as far as there is time.
struct Beside {
  std::vector<Candidate> alternatives;
  std::vector<Binding> limits;
  std::vector<const Target*> frameworks;  ///< that run the plan
  std::vector<FrameworkAnswer> targets;   ///< where the question is for none
  ServingChoices serving;                 ///< of a plan for inference
  std::string range;                      ///< of the rate
  std::string time;                       ///< where it goes
};

Beside look_beside(Console& console, const Problem& problem, const SearchResult& search,
                   const PlanReport& report) {
  const Progress progress(console, "looking at what limits the plan");
  const Candidate& best = search.plans.front();
  const bool for_people = !console.json() && !console.options().quiet;
  const bool wants_limits = console.json() || for_people;
  Beside beside;
  if (!report.stop.stop_requested()) {
    beside.alternatives = shown_choices(problem, report.stop);
  }
  if (for_people && !report.stop.stop_requested()) {
    const Compiled compiled = compile_for(problem, best.plan);
    beside.time = shares_sentence(attribution(compiled.program, compiled.costs));
    if (!report.risk) beside.range = likely_range(problem, best, compiled);
  }
  if (wants_limits && !report.stop.stop_requested())
    beside.limits = binding(problem, best, report.stop, console.options().threads);
  if (problem.excluded.empty() && serves(best.plan)) {
    const int devices = problem.devices.value_or(device_count(problem.cluster));
    beside.serving = serving_choices(as_loaded(problem, best.plan), devices, report.stop);
  }
  beside.frameworks = frameworks_of(as_loaded(problem, best.plan));
  if (wants_limits && report.compares_frameworks && !report.stop.stop_requested()) {
    beside.targets = answers_of_frameworks(problem, report.said, search.plans, report.stop,
                                           console.options().threads);
  }
  if (report.stop.stop_requested())
    console.note("stopped early: usual choices, and what limits the plan, may be missing");
  return beside;
}

/// What reaches less memory than the plans that were asked for, if anything does.
std::string beyond_front(const Problem& problem) {
  std::vector<std::string> flags;
  const bool has_replicas = !problem.straight && devices_in_use(problem).size() > 1;
  const bool has_sharding =
      problem.target == nullptr || std::ranges::find(problem.target->sharding, Sharding::zero3) !=
                                       problem.target->sharding.end();
  const std::vector<Sharding> tried = sharding_choices(problem);
  const bool tries_all = std::ranges::find(tried, Sharding::zero3) != tried.end();
  if (has_replicas && has_sharding && !tries_all) flags.emplace_back("--sharding zero3");
  if (problem.recompute_everywhere.empty() && problem.recompute_layers.empty() &&
      may_share_layers(problem))
    flags.emplace_back("--recompute layers");
  if (flags.empty()) return "";
  return concat("plans with ", join_words(flags),
                " are not among them; they may need less memory\n");
}

std::optional<TrainingRun> run_of(const Problem& problem, const Candidate& candidate,
                                  const PlanReport& report) {
  return training_run(report.tokens, candidate.plan, problem.cluster, pace(*candidate.prediction));
}

void print_for_people(Console& console, const Problem& problem, const SearchResult& search,
                      const Beside& beside, const PlanReport& report) {
  const Candidate& best = search.plans.front();
  const int available = device_count(problem.cluster);
  const int used = static_cast<int>(used_devices(best.plan).size());
  const Model model = in_plan_order(problem.profile, best.plan).model;
  console.print(plan_words(best.plan, model, console.unicode()) + "\n");
  if (!problem.excluded.empty())
    console.print(fmt::format("excluded: {}\n", device_ranges(problem.excluded)));
  if (used < available_devices(problem)) {
    console.print(fmt::format("uses {} of the cluster's {} devices{}\n", used, available,
                              reason_to_stop(problem, search, report.risk.has_value())));
  }
  if (report.risk) console.print(sentence_at_risk(problem, best, *report.risk));
  console.print(prediction_sentence(best.plan, problem.cluster, *best.prediction) + "\n");
  console.print(beside.range +
                utilisation_sentence(best.plan, problem.cluster, utilisation_of(problem, best)));
  console.print(sentence_on_faster(problem, beside.targets, best));
  console.print(training_run_sentence(run_of(problem, best, report), best.plan, problem.cluster));
  const TableRows rows = console.verbose() ? TableRows::each : TableRows::together;
  console.print(plan_table(best.plan, model, *best.prediction, rows, console.unicode()));
  console.print(room_sentence(problem, best));
  if (const auto serving = serving_of(problem, best))
    console.print(serving_text(*serving, console.unicode()));
  console.print(choices_text(beside.serving, best.plan, console.unicode()));
  console.print(beside.time);
  console.print(best.objective ? objective_sentence(search, *best.objective)
                               : own_objective_sentence(problem, search));
  if (report.is_front) {
    console.print(front_table(problem, search, console.unicode()) + beyond_front(problem));
  } else if (search.plans.size() > 1) {
    console.print(ranking_table(problem, search, console.unicode()));
  }
  console.print(frameworks_sentence(beside.frameworks));
  console.print(targets_text(problem, beside.targets, best));
  console.print(alternatives_text(problem, beside.alternatives, best));
  print_limits(console, beside.limits);
  if (!best.objective) {
    console.print(certificate_sentence(problem, search, report.is_front) + "\n");
    if (!report.is_front) console.print(looseness_sentence(search));
  }
  console.print(fit_sentence(best.plan, *best.prediction));
}

ordered_json binding_json(const std::vector<Binding>& limits) {
  ordered_json rows = ordered_json::array();
  for (const Binding& limit : limits) {
    rows.push_back({{"what", limit.what},
                    {"where", limit.where},
                    {"shadow_price", limit.value},
                    {"saved_ns", limit.saved.count()}});
  }
  return rows;
}

/// Whether a signal or a limit has ended anything of the answer before it was whole.
bool was_interrupted(const SearchResult& search, const PlanReport& report) {
  const bool by_signal = report.stop_signal != nullptr && *report.stop_signal != 0;
  return search.interrupted || by_signal || report.stop.stop_requested();
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
void report_plans(Console& console, const Problem& problem, const SearchResult& search,
                  const PlanReport& report) {
  const Candidate& best = search.plans.front();
  console.artefact(write_plan(best.plan));
  const Beside beside = best.prediction && !console.is_silent()
                            ? look_beside(console, problem, search, report)
                            : Beside{};
  if (best.prediction) {
    for (const std::string& note : best.prediction->notes) console.note(note);
  }
  if (best.prediction) {
    print_for_people(console, problem, search, beside, report);
  } else {
    print_unscored(console, search);
  }
  ordered_json plans = ordered_json::array();
  for (const Candidate& candidate : search.plans) {
    plans.push_back(candidate_json(problem, candidate, search, report.is_front));
    if (!candidate.prediction) continue;
    if (const auto serving = serving_of(problem, candidate))
      plans.back()["serving"] = serving_json(*serving);
    if (candidate.prediction) add_training_run(plans.back(), run_of(problem, candidate, report));
    if (candidate.prediction && console.json()) {
      plans.back()["runs_in"] = frameworks_json(frameworks_of(as_loaded(problem, candidate.plan)));
    }
    if (!candidate.prediction || !console.json()) continue;
    add_risk(plans.back(), report.risk, problem.profile, compile_for(problem, candidate.plan),
             {candidate.prediction->samples_per_second,
              shortest_step(*candidate.prediction, utilisation_of(problem, candidate))},
             device_peaks(candidate.plan, *candidate.prediction));
  }
  ordered_json result{
      {"plans", std::move(plans)},
      {"alternatives", best.prediction
                           ? alternatives_json(problem, beside.alternatives, pace(*best.prediction))
                           : ordered_json::array()},
      {"binding", binding_json(beside.limits)},
      {"search",
       {{"strategy", search.strategy},
        {"candidates", search.candidates},
        {"pruned", search.pruned}}},
      {"interrupted", was_interrupted(search, report)}};
  if (!beside.serving.fit.empty()) result["serving_choices"] = choices_json(beside.serving);
  if (!beside.targets.empty())
    result["targets"] = targets_json(beside.targets, pace(*best.prediction));
  if (report.is_front) {
    result["front"] = {{"axes", {"memory", "throughput"}}, {"proved", search.proved_optimal}};
  }
  console.result(result);
}

}  // namespace stagecraft
