// stagecraft plan MODEL CLUSTER: the best plan found, what it rests on, and what the usual choices
// would cost.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/strategies.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules.hpp"
#include "tools/arguments.hpp"
#include "tools/commands.hpp"
#include "tools/device_options.hpp"
#include "tools/interrupt.hpp"
#include "tools/progress.hpp"
#include "tools/results.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct PlanArguments {
  std::string model, microbatch = "auto", tensor_parallel = "auto", precision, optimizer = "adamw",
                     sharding = "none", schedule = "auto";
  DeviceOptions devices;
  std::string memory_limit = "100%", recompute = "auto", objective = "step", time_limit, gap = "0%",
              strategy = "exact";
  std::vector<std::string> fix;
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  int max_stages = 0;
  int min_layers_per_stage = 1;
  int top = 1;
  bool straight = false;
};

constexpr int default_microbatches = 8;

/// "stage0.layers=0..4".
FixedStage read_fixed(const std::string& text) {
  FixedStage fixed;
  int used = 0;
  const int read = std::sscanf(text.c_str(), "stage%d.layers=%d..%d%n", &fixed.stage,
                               &fixed.layers.first, &fixed.layers.end, &used);
  if (read != 3 || used != static_cast<int>(text.size()) || fixed.stage < 0 ||
      fixed.layers.first < 0 || fixed.layers.end < fixed.layers.first) {
    fail_usage("--fix: expected stageN.layers=FIRST..END (END not included), found \"", text, "\"");
  }
  return fixed;
}

std::vector<Recompute> read_recompute_choices(const std::string& text) {
  if (text == "auto") return {Recompute::none, Recompute::full};
  return {read_recompute(text)};
}

/// Names of schedules, each with the numbers of virtual stages worth trying where it takes several.
std::vector<ScheduleChoice> read_schedules(const std::string& text) {
  std::vector<ScheduleChoice> choices;
  if (text == "auto") return {{.name = "1f1b"}, {.name = "gpipe"}};
  for (const std::string& word : read_words("--schedule", text)) {
    const std::string name(find_schedule(word).name);
    if (name != "gpipe" && name != "1f1b" && name != "interleaved") {
      fail_usage("--schedule: the search covers gpipe, 1f1b and interleaved; for ", name,
                 " see stagecraft simulate --schedule ", name, ", or name it in a plan you write");
    }
    if (name != "interleaved") {
      choices.push_back({.name = name});
    } else {
      for (const int v : {2, 3, 4}) choices.push_back({.name = name, .virtual_stages = v});
    }
  }
  return choices;
}

/// Every divisor of the batch, or what the profile measured, or what the user said.
std::vector<std::int64_t> microbatch_choices(const PlanArguments& arguments, const Profile& profile,
                                             std::int64_t batch) {
  std::vector<std::int64_t> sizes;
  if (arguments.microbatch != "auto") {
    sizes = read_integers("--microbatch", arguments.microbatch, 1, batch);
  } else if (!profile.entries.empty()) {
    for (const ProfileEntry& entry : profile.entries) sizes.push_back(entry.setting.microbatch);
  } else {
    for (std::int64_t size = 1; size <= batch; size *= 2) sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::erase_if(sizes, [&](std::int64_t size) { return size > batch || batch % size != 0; });
  if (sizes.empty())
    fail_usage("--microbatch: no size divides the batch of ", batch,
               "; choose --batch as a multiple of a measured or given microbatch");
  return sizes;
}

/// What the user said, what the profile measured, or powers of two up to what the innermost links
/// join. CPUs do without: nothing carries such a plan out there yet.
std::vector<int> tensor_parallel_choices(const PlanArguments& arguments, const Profile& profile,
                                         const Cluster& cluster) {
  std::vector<int> degrees;
  if (arguments.tensor_parallel != "auto") {
    constexpr int most = 1024;
    for (const std::int64_t degree :
         read_integers("--tensor-parallel", arguments.tensor_parallel, 1, most)) {
      degrees.push_back(static_cast<int>(degree));
    }
  } else if (!profile.entries.empty()) {
    for (const ProfileEntry& entry : profile.entries) {
      degrees.push_back(entry.setting.tensor_parallel);
    }
  } else {
    const bool may_split = profile.model.transformer && cluster.kinds.front().name != "cpu";
    const int width = may_split && !cluster.levels.empty() ? cluster.levels.back().count : 1;
    for (int degree = 1; degree <= width; degree *= 2) degrees.push_back(degree);
  }
  std::sort(degrees.begin(), degrees.end());
  degrees.erase(std::unique(degrees.begin(), degrees.end()), degrees.end());
  return degrees;
}

std::int64_t largest_microbatch(const Profile& profile) {
  std::int64_t largest = 1;
  for (const ProfileEntry& entry : profile.entries)
    largest = std::max(largest, entry.setting.microbatch);
  return largest;
}

Precision precision_for(const PlanArguments& arguments, const Profile& profile,
                        const Cluster& cluster) {
  if (!arguments.precision.empty()) return read_precision(arguments.precision);
  if (!profile.entries.empty()) return profile.entries.front().setting.precision;
  return cluster.kinds.front().flops_bf16 > cluster.kinds.front().flops_fp32 ? Precision::bfloat16
                                                                             : Precision::float32;
}

/// As given, as the file says, or eight of the largest microbatch.
std::int64_t batch_for(const PlanArguments& arguments, const Profile& profile) {
  if (arguments.batch > 0) return arguments.batch;
  const bool has_own = profile.devices && profile.devices->microbatches > 0;
  return largest_microbatch(profile) *
         (has_own ? profile.devices->microbatches : default_microbatches);
}

Problem problem_from(const PlanArguments& arguments, const LoadedProfile& loaded) {
  const ChosenDevices devices = choose_devices(arguments.devices, loaded.profile);
  Problem problem{.model_name = arguments.model,
                  .cluster_name = devices.name,
                  .profile_hash = loaded.hash,
                  .profile = loaded.profile,
                  .source = {.path = loaded.path, .content = loaded.content},
                  .cluster = devices.cluster};
  problem.precision = precision_for(arguments, loaded.profile, problem.cluster);
  problem.sequence = arguments.sequence > 0 ? arguments.sequence
                     : loaded.profile.entries.empty()
                         ? loaded.profile.model.sequence
                         : loaded.profile.entries.front().setting.sequence;
  problem.global_batch = batch_for(arguments, loaded.profile);
  problem.microbatches = microbatch_choices(arguments, loaded.profile, problem.global_batch);
  problem.tensor_parallel = tensor_parallel_choices(arguments, loaded.profile, problem.cluster);
  problem.optimizer = {.kind = read_optimizer_kind(arguments.optimizer),
                       .sharding = read_sharding(arguments.sharding)};
  problem.schedules = read_schedules(arguments.schedule);
  problem.recompute = read_recompute_choices(arguments.recompute);
  problem.devices = devices.first;
  // A CLUSTER has no CPUs beside its devices.
  if (!devices.own && problem.profile.devices) problem.profile.devices->processors = 0;
  if (arguments.max_stages > 0) problem.max_stages = arguments.max_stages;
  problem.min_layers_per_stage = arguments.min_layers_per_stage;
  problem.straight = arguments.straight;
  for (const std::string& text : arguments.fix) problem.fixed.push_back(read_fixed(text));
  problem.memory_fraction = read_percent("--mem-limit", arguments.memory_limit);
  return problem;
}

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
  if (search.proved_optimal)
    return fmt::format("optimal: proved over {} simulated and {} discarded candidates",
                       search.candidates, search.pruned);
  return fmt::format("within {} of the optimum ({} simulated, {} discarded{})", percent(search.gap),
                     search.candidates, search.pruned, search.interrupted ? ", stopped early" : "");
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

void print_for_people(Console& console, const Problem& problem, const SearchResult& search,
                      const std::vector<Candidate>& alternatives,
                      const std::vector<Binding>& limits) {
  const Candidate& best = search.plans.front();
  const int available = device_count(problem.cluster);
  const int used = static_cast<int>(used_devices(best.plan).size());
  if (used < available)
    console.print(fmt::format("uses {} of the cluster's {} devices: more would not be faster\n",
                              used, available));
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

int report_infeasible(Console& console, const Infeasible& infeasible) {
  const ordered_json result{{"plans", ordered_json::array()},
                            {"infeasible",
                             {{"reason", infeasible.reason},
                              {"short_by_bytes", infeasible.short_by},
                              {"remedies", infeasible.remedies}}}};
  return console.error(Error(ErrorKind::infeasible, infeasible.reason, {}, infeasible.remedies),
                       &result);
}

SearchResult search_for(Console& console, const PlanArguments& arguments, const Problem& problem,
                        const Interrupt& interrupt) {
  Progress progress(console, "searching");
  SearchControl control{
      .stop = interrupt.token(), .top = arguments.top, .gap = read_percent("--gap", arguments.gap)};
  control.progress = [&](const SearchProgress& state) {
    progress.update(
        state.done,
        state.best ? fmt::format("best {} gap {}", format_duration(*state.best), percent(state.gap))
                   : "");
  };
  const StrategyChoice choice = choose_strategy(arguments.strategy);
  control.argument = choice.argument;
  return choice.strategy->search(problem, control);
}

/// Prints the plans, or writes them where -o says, and gives the result for --json.
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

int make_plan(Console& console, const PlanArguments& arguments) {
  if (arguments.objective != "step")
    fail_usage("--objective: expected step, found \"", arguments.objective, "\"");
  const LoadedProfile loaded = load_profile(arguments.model);
  console.input(loaded.path, loaded.hash);
  for (const std::string& warning : loaded.profile.warnings) console.note(warning);
  const Problem problem = problem_from(arguments, loaded);
  std::optional<Duration> limit;
  if (!arguments.time_limit.empty()) limit = read_duration("--time-limit", arguments.time_limit);
  const Interrupt interrupt(limit);
  const SearchResult search = search_for(console, arguments, problem, interrupt);
  if (search.infeasible) return report_infeasible(console, *search.infeasible);
  if (search.plans.empty())
    throw Error(ErrorKind::infeasible,
                "stopped before a first plan was found; allow a longer --time-limit");
  report_plans(console, problem, search);
  return interrupt.interrupted() ? 130 : 0;
}

std::string strategy_help() {
  std::vector<std::string> names;
  for (const Strategy& strategy : strategies) names.emplace_back(strategy.name);
  return "exact, or another planner in its own cost model: " + join_words(names);
}

void declare_options(CLI::App& app, PlanArguments& arguments) {
  app.add_option("model", arguments.model,
                 "A built-in name, a config.json, a profile, or a file of another planner")
      ->type_name("MODEL")
      ->required();
  declare_devices(app, arguments.devices);
  app.add_option("--batch", arguments.batch, "Samples per step (8 microbatches)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  app.add_option("--microbatch", arguments.microbatch, "Samples per microbatch, a list, or auto")
      ->type_name("N|auto");
  app.add_option("--tensor-parallel", arguments.tensor_parallel,
                 "Degrees to try, a list, or auto: what is known, within the innermost links")
      ->type_name("N|auto");
  app.add_option("--sequence", arguments.sequence, "Tokens per sample, instead of the model's own")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000'000));
  app.add_option("--precision", arguments.precision,
                 "fp32, bf16, fp16 or fp64 (what the profile or the device has)")
      ->type_name("P");
  app.add_option("--optimizer", arguments.optimizer, "adamw or sgd")->type_name("NAME");
  app.add_option("--sharding", arguments.sharding,
                 "none, or zero1: replicas share the optimizer's state and work")
      ->type_name("NAME");
  app.add_option("--schedule", arguments.schedule, "Names, or auto: 1f1b and gpipe")
      ->type_name("A,B|auto");
  app.add_option("--mem-limit", arguments.memory_limit, "The part of it that may be used (100%)")
      ->type_name("PERCENT");
  app.add_option("--recompute", arguments.recompute, "auto, none or full")
      ->type_name("R")
      ->check(CLI::IsMember({"auto", "none", "full"}));
  app.add_option("--fix", arguments.fix, "Fix a stage's layers: stage0.layers=0..4")
      ->type_name("STAGE");
  app.add_flag("--straight", arguments.straight, "No replication");
  app.add_option("--max-stages", arguments.max_stages, "At most so many")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--min-layers-per-stage", arguments.min_layers_per_stage, "At least so many (1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--objective", arguments.objective, "step: the shortest step time")
      ->type_name("NAME");
  app.add_option("--time-limit", arguments.time_limit,
                 "Stop searching after this time, with the best so far")
      ->type_name("D");
  app.add_option("--gap", arguments.gap, "Stop when the plan is proved this good (0%)")
      ->type_name("PERCENT");
  app.add_option("--top", arguments.top, "Show so many plans (1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  app.add_option("--strategy", arguments.strategy, strategy_help())->type_name("NAME");
}

}  // namespace

Action declare_plan(CLI::App& app) {
  auto arguments = std::make_shared<PlanArguments>();
  declare_options(app, *arguments);
  return [arguments](Console& console) { return make_plan(console, *arguments); };
}

}  // namespace stagecraft
