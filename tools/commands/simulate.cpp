// stagecraft simulate PLAN, or --schedule NAME with durations: the predicted timeline and its
// numbers.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "planner/analysis/advice.hpp"
#include "planner/costs/compile.hpp"
#include "planner/costs/program_rows.hpp"
#include "planner/interop/load_plan.hpp"
#include "planner/plan/plan_words.hpp"
#include "profiles/json.hpp"
#include "simulator/analyses/jitter.hpp"
#include "simulator/checks/check.hpp"
#include "simulator/engines/compiled.hpp"
#include "simulator/engines/steady.hpp"
#include "simulator/simulate.hpp"
#include "simulator/views/draw.hpp"
#include "tools/commands.hpp"
#include "tools/inputs/timeline_files.hpp"
#include "tools/options/applicable.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/change_options.hpp"
#include "tools/options/failure_options.hpp"
#include "tools/options/memory_options.hpp"
#include "tools/options/request_options.hpp"
#include "tools/options/risk_options.hpp"
#include "tools/options/schedule_argument.hpp"
#include "tools/options/time_limit.hpp"
#include "tools/options/training_run.hpp"
#include "tools/reports/kept_plan.hpp"
#include "tools/reports/outcome.hpp"
#include "tools/reports/results.hpp"
#include "tools/reports/serving_report.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct SimulateArguments {
  std::string plan;
  ScenarioOptions scenario;
  ConditionOptions conditions;
  FailureFlags failures;
  TrainingRunFlags run;
  ServingOptions serving;
  RiskOptions risk;
  MemoryOptions memory;
  TimelineFiles files;
  ChangeFlags changes;
  std::string kept;  ///< file for the plan as it was changed; empty: none
  std::string barrier = "on", jitter, time_limit;
  int iterations = 1;
  int samples = 1000;
  RequestOptions requests;
  bool draw = false;
};

std::optional<Summary> jittered(const Console& console, const SimulateArguments& arguments,
                                const Program& program, const Costs& costs, bool under_conditions) {
  if (arguments.jitter.empty()) return {};
  if (under_conditions) {
    fail_usage("--jitter goes with asynchronous messages on links of their own, and devices that ",
               "do not slow down, stop or wait for memory; leave these flags out");
  }
  constexpr std::size_t most_works = 2'000'000'000;
  if (program.work.size() > most_works / static_cast<std::size_t>(arguments.samples)) {
    fail_usage("--jitter: ", arguments.samples, " samples of ", program.work.size(),
               " instructions are more than the ", most_works,
               " that are worked out; ask for fewer --samples");
  }
  return summary(jittered_steps(program, costs,
                                {.instruction = read_percent("--jitter", arguments.jitter),
                                 .samples = arguments.samples,
                                 .seed = console.options().seed}));
}

/// Exact time per further iteration: the difference between the ends of the last two.
std::optional<Duration> steady_step(const SimulateArguments& arguments, const Program& program,
                                    const Costs& costs,
                                    const std::optional<Environment>& environment) {
  if (arguments.iterations == 1) return {};
  const bool barrier = arguments.barrier == "on";
  if (!environment) return last_iteration(program, costs, arguments.iterations, barrier);
  constexpr std::size_t most_works = 4'000'000;
  if (program.work.size() > most_works / static_cast<std::size_t>(arguments.iterations)) {
    fail_usage("--iterations ", arguments.iterations, " of ", program.work.size(),
               " instructions under such conditions are more than the ", most_works,
               " that are worked out; ask for fewer");
  }
  std::vector<Duration> ends(static_cast<std::size_t>(arguments.iterations), Duration{0});
  const SimulateOptions options{.iterations = arguments.iterations, .barrier = barrier};
  for (const Span& span : run_under(environment, program, costs, options).timeline.spans) {
    Duration& end = ends[static_cast<std::size_t>(span.iteration)];
    end = std::max(end, span.end);
  }
  return ends.back() - ends[ends.size() - 2];
}

/// What holds iterations up: with a barrier the whole step, else the slowest cycle of waits. None
/// where more than waits bears on works.
std::optional<CycleMean> slowest_cycle(const SimulateArguments& arguments, const Program& program,
                                       const Costs& costs,
                                       const std::optional<Environment>& environment) {
  if (arguments.iterations == 1 || environment) return {};
  if (arguments.barrier == "off") return cycle_mean(program, costs);
  return CycleMean{.time = CompiledProgram(program).step(costs)};
}

std::optional<LongRun> run_with_failures(const Console& console, const SimulateArguments& arguments,
                                         int devices, const Timeline& timeline) {
  return long_run(arguments.failures, devices, step_time(timeline),
                  {.samples = arguments.samples, .seed = console.options().seed});
}

Outcome simulate_scenario(const Console& console, const SimulateArguments& arguments,
                          const Scenario& scenario) {
  const Program& program = scenario.program;
  const Costs& costs = scenario.costs;
  const auto environment = environment_of(arguments.conditions, scenario);
  const std::string& policy = arguments.conditions.policy;
  Outcome outcome{.setting = scenario.setting,
                  .link_policy = policy == "async" ? "" : policy,
                  .run = run_under(environment, program, costs),
                  .steady_step = steady_step(arguments, program, costs, environment),
                  .cycle_mean = slowest_cycle(arguments, program, costs, environment),
                  .jittered = jittered(console, arguments, program, costs, environment.has_value()),
                  .explanation = {},
                  .refusal = {}};
  outcome.long_run = run_with_failures(console, arguments, program.devices, outcome.run.timeline);
  if (outcome.run.stranded.empty())
    outcome.served = serving_of(arguments.serving, scenario.setting, outcome.run.timeline);
  if (console.json()) outcome.explanation = explain(program, costs, environment);
  return outcome;
}

std::string jitter_sentence(const SimulateArguments& arguments,
                            const std::optional<Summary>& steps) {
  if (!steps) return "";
  return fmt::format(
      "with up to {} more or less on every instruction: mean {}   p50 {}   p95 {}   p99 {}\n",
      arguments.jitter, format_duration(steps->mean), format_duration(steps->p50),
      format_duration(steps->p95), format_duration(steps->p99));
}

std::string sentence(const Timeline& timeline) {
  std::string text =
      fmt::format("step {}   bubble {}   in flight {}", format_duration(step_time(timeline)),
                  percent(bubble(timeline)), fmt::join(peak_in_flight(timeline), " "));
  if (!takes_memory(timeline)) return text + "\n";
  std::vector<std::string> peaks;
  for (const MemoryPeak& peak : memory_peaks(timeline)) peaks.push_back(format_bytes(peak.bytes));
  return text + fmt::format("   memory {}\n", fmt::join(peaks, " "));
}

/// A schedule that does not take a shape has no numbers there.
Outcome outcome_or_refusal(const Console& console, const SimulateArguments& arguments,
                           const ScheduleSetting& setting) {
  try {
    return simulate_scenario(console, arguments, scenario_of(setting, arguments.scenario));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::input || error.kind() == ErrorKind::bug) throw;
    Outcome outcome;
    outcome.setting = setting;
    outcome.refusal = error;
    return outcome;
  }
}

/// If no schedule takes any shape, that is an error.
int show_sweep(Console& console, const SimulateArguments& arguments,
               const std::vector<ScheduleSetting>& settings) {
  std::vector<SweepRow> rows;
  ordered_json points = ordered_json::array();
  std::set<std::string> reasons;
  for (const ScheduleSetting& setting : settings) {
    const Outcome outcome = outcome_or_refusal(console, arguments, setting);
    if (console.json()) points.push_back(outcome_json(outcome));
    if (outcome.refusal) reasons.insert(outcome.refusal->message());
    rows.push_back(sweep_row(outcome));
  }
  if (std::ranges::all_of(rows, [](const SweepRow& row) { return row.refusal.has_value(); }))
    throw *rows.front().refusal;
  for (const std::string& reason : reasons) console.note(reason);
  console.print(sweep_table(rows, console.unicode()));
  console.result({{"points", std::move(points)}});
  return 0;
}

/// A sweep draws and writes no timeline: there would be one for each of its rows.
void refuse_timeline_of_sweep(const CLI::App& app, const std::string& remedy) {
  refuse_given(app, {"--trace", "--svg", "--nvtx", "--draw"},
               concat("is of one timeline, and a sweep has one for each row; ", remedy));
}

int show_schedules(Console& console, const CLI::App& app, const SimulateArguments& arguments) {
  const std::vector<ScheduleSetting> settings = settings_of(arguments.scenario, console);
  if (settings.size() > 1) {
    refuse_timeline_of_sweep(
        app, "give one --schedule, and one value of --stages, --virtual and --microbatches");
    return show_sweep(console, arguments, settings);
  }
  const Scenario scenario = scenario_of(settings.front(), arguments.scenario);
  const Outcome outcome = simulate_scenario(console, arguments, scenario);
  const Timeline& timeline = outcome.run.timeline;
  DrawOptions drawing = console.drawing();
  drawing.critical = longest_chain(scenario.program, scenario.costs,
                                   environment_of(arguments.conditions, scenario), timeline);
  write_timeline_files(arguments.files, timeline,
                       {{"kind", "predicted"}, {"schedule", name_of(outcome.setting)}},
                       drawing.critical, {.title = name_of(outcome.setting), .rows = {}});
  console.print(draw(timeline, drawing) + sentence(timeline) + remarks_on(outcome.run));
  console.print(steady_sentence(outcome.steady_step) + serving_text(outcome.served) +
                jitter_sentence(arguments, outcome.jittered) + goodput_sentence(outcome.long_run));
  console.result(outcome_json(outcome));
  return 0;
}

/// A plan under changes, and what it is predicted to do.
struct ChangedOutcome {
  std::vector<Change> changes;
  std::optional<Prediction> prediction;
  std::optional<TrainingRun> run;
  bool is_cut_anew = false;
  std::optional<Error> refusal;
};

std::vector<LayerRange> stages_of(const Plan& plan) {
  std::vector<LayerRange> stages;
  for (const Stage& stage : plan.stages) stages.push_back(stage.layers);
  return stages;
}

const char* words_of_new_cuts(bool replan) {
  return replan ? "layers are cut anew for each combination, for the shortest step"
                : "where there are other numbers of stages, layers are cut anew, for equal time on "
                  "every device; --replan looks for the shortest step";
}

ChangedOutcome simulate_changed(const SimulateArguments& arguments, const LoadedPlan& loaded,
                                const std::vector<Change>& changes) {
  ChangedOutcome outcome{.changes = changes, .prediction = {}, .run = {}, .refusal = {}};
  try {
    const ChangedPlan changed = apply(arguments.changes, changes, loaded);
    const LoadedPlan& other = changed.loaded;
    outcome.is_cut_anew = stages_of(other.plan) != stages_of(loaded.plan);
    const Compiled compiled = compile_to_read(other.plan, other.profile, other.cluster);
    require_safe(compiled.program, {.device_names = compiled.devices});
    const auto environment =
        environment_of(with_slow_devices(arguments.conditions, changed), compiled.program,
                       compiled.costs, site_of(other, compiled));
    const EventRun run = run_under(environment, compiled.program, compiled.costs);
    outcome.prediction = predict(other.plan, compiled, run.timeline);
    outcome.run =
        training_run(arguments.run.tokens, other.plan, other.cluster, outcome.prediction->step);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::usage || error.kind() == ErrorKind::bug) throw;
    outcome.refusal = error;
  }
  return outcome;
}

ordered_json changes_json(const std::vector<Change>& changes) {
  ordered_json json = ordered_json::object();
  for (const Change& change : changes) json[change.key] = change.value;
  return json;
}

/// "+12.3 %" of time more than the plan as it is.
std::string difference(Duration step, Duration before) {
  return fmt::format("{:+.1f} %", 100 * (seconds(step) / seconds(before) - 1));
}

/// "by the change: step 5.1s → 7.4s (+45.1 %)", with what else it changes of what people look at;
/// empty where the plan as it is has no figures.
std::string by_the_change(const ChangedOutcome& before, const Prediction& now, bool unicode) {
  if (!before.prediction) return "";
  const Prediction& then = *before.prediction;
  const std::string_view arrow = unicode ? "→" : "->";
  std::string text = fmt::format("by the change: step {} {} {} ({})", format_duration(then.step),
                                 arrow, format_duration(now.step), difference(now.step, then.step));
  const double more_samples =
      now.samples_per_second * seconds(now.step) / (then.samples_per_second * seconds(then.step));
  if (constexpr double rounding = 1e-9; std::abs(more_samples - 1) > rounding) {
    text += fmt::format(", samples/s {} {} {} ({})", readable(then.samples_per_second), arrow,
                        readable(now.samples_per_second),
                        signed_percent(now.samples_per_second / then.samples_per_second - 1));
  }
  if (const std::string peak = highest_peak(now); peak != highest_peak(then))
    text += fmt::format(", highest peak {} {} {}", highest_peak(then), arrow, peak);
  return text + "\n";
}

ordered_json figures_json(const Prediction& prediction) {
  return {{"step_ns", prediction.step.count()},
          {"samples_per_second", prediction.samples_per_second},
          {"bubble", prediction.bubble},
          {"fits", prediction.fits}};
}

std::string bar_of(double rate, double most, bool unicode) {
  constexpr int widest = 16;
  return bar(most > 0 ? rate / most : 0, unicode, widest);
}

/// The plan as it is in the first row, then every combination.
int show_changes(Console& console, const SimulateArguments& arguments, const LoadedPlan& loaded,
                 const std::vector<std::vector<Change>>& sets) {
  SimulateArguments plain = arguments;
  plain.changes = {};
  std::vector<ChangedOutcome> outcomes{simulate_changed(plain, loaded, {})};
  if (outcomes.front().refusal) throw *outcomes.front().refusal;
  for (const std::vector<Change>& changes : sets)
    outcomes.push_back(simulate_changed(arguments, loaded, changes));
  const Duration before = outcomes.front().prediction->step;
  const std::string& tokens = arguments.run.tokens;
  std::vector<std::string> headings{"what if", ">step",   ">than now",     ">samples/s",
                                    "",        ">bubble", ">highest peak", "fits"};
  if (!tokens.empty()) headings.push_back(concat(">", tokens, " tokens"));
  Table table(headings);
  double most = 0;
  for (const ChangedOutcome& outcome : outcomes) {
    if (outcome.prediction) most = std::max(most, outcome.prediction->samples_per_second);
  }
  ordered_json points = ordered_json::array();
  std::set<std::string> reasons;
  bool cut_anew = false;
  const auto add_row = [&](std::vector<std::string> cells, const ChangedOutcome& outcome) {
    if (!tokens.empty()) cells.push_back(outcome.run ? words_of_hours(outcome.run->hours) : "-");
    table.row(std::move(cells));
  };
  for (const ChangedOutcome& outcome : outcomes) {
    const std::string name =
        outcome.changes.empty() ? "the plan as it is" : to_string(outcome.changes);
    ordered_json point{{"changes", changes_json(outcome.changes)}};
    if (outcome.is_cut_anew) cut_anew = true;
    if (outcome.refusal) {
      reasons.insert(outcome.refusal->message());
      add_row({name, "-", "-", "-", "", "-", "-", "impossible"}, outcome);
      point["refused"] = outcome.refusal->message();
    } else {
      const Prediction& prediction = *outcome.prediction;
      add_row(
          {name, format_duration(prediction.step), difference(prediction.step, before),
           readable(prediction.samples_per_second),
           bar_of(prediction.samples_per_second, most, console.unicode()),
           percent(prediction.bubble), highest_peak(prediction), prediction.fits ? "yes" : "no"},
          outcome);
      add_training_run(point, outcome.run);
      point.update(figures_json(prediction));
    }
    points.push_back(std::move(point));
  }
  console.print(plan_words(loaded.plan, loaded.profile.model, console.unicode()) + "\n");
  if (cut_anew) console.note(words_of_new_cuts(arguments.changes.replan));
  for (const std::string& reason : reasons) console.note(reason);
  console.print(table.text(console.unicode()));
  console.result({{"points", std::move(points)}});
  return 0;
}

/// The figures in the file are those without further conditions, as `plan` writes them.
void keep_plan(Console& console, const SimulateArguments& arguments, const Cluster& named,
               const Target* target, const LoadedPlan& changed, const Compiled& compiled) {
  if (arguments.kept.empty()) return;
  const Prediction plain =
      predict(changed.plan, compiled, simulate(compiled.program, compiled.costs));
  write_file(arguments.kept, text_of_kept_plan(changed.plan, changed.path, plain));
  if (std::string note = memory_not_kept(named, changed); !note.empty())
    console.note(std::move(note));
  if (!arguments.changes.any()) return;
  if (std::string note = target_not_kept(target, arguments.kept); !note.empty())
    console.note(std::move(note));
}

/// -o has what is printed, as everywhere; whoever looks for the plan is told where it is.
void tell_what_output_is(Console& console, const SimulateArguments& arguments) {
  const std::string& file = console.options().output;
  const bool looks_for_plan = arguments.changes.any() && arguments.kept.empty() &&
                              file.ends_with(".json") && !console.json();
  if (looks_for_plan)
    console.note(concat(file, " gets what is printed; --write-plan FILE keeps the changed plan"));
}

/// Under the same conditions; none where nothing is changed.
std::optional<ChangedOutcome> as_it_is(const SimulateArguments& arguments,
                                       const LoadedPlan& given) {
  if (!arguments.changes.any()) return {};
  SimulateArguments plain = arguments;
  plain.changes = {};
  plain.run = {};
  return simulate_changed(plain, given, {});
}

int show_plan(Console& console, const SimulateArguments& arguments) {
  const auto sets = change_sets(arguments.changes);
  LoadedPlan given = load_plan(arguments.plan);
  console.input(given.path, given.hash);
  const Cluster named = given.cluster;
  const Target* target = target_of(given.plan);
  tell_what_output_is(console, arguments);
  set_memory(arguments.memory, given, console);
  set_requests(arguments.requests, given);
  for (const std::string& price : arguments.run.prices) set_price(given.cluster, price);
  if (sets.size() > 1) return show_changes(console, arguments, given, sets);
  const std::optional<ChangedOutcome> before = as_it_is(arguments, given);
  const ChangedPlan changed = apply(arguments.changes, sets.front(), std::move(given));
  for (const std::string& note : changed.notes) console.note(note);
  if (!arguments.kept.empty()) require_in_plan(changed, "--write-plan");
  const LoadedPlan& loaded = changed.loaded;
  const Compiled compiled = compile_to_read(loaded.plan, loaded.profile, loaded.cluster);
  const Program& program = compiled.program;
  const Costs& costs = compiled.costs;
  require_safe(program, {.device_names = compiled.devices});
  const auto environment = environment_of(with_slow_devices(arguments.conditions, changed), program,
                                          costs, site_of(loaded, compiled));
  const EventRun run = run_under(environment, program, costs);
  const Prediction prediction = predict(loaded.plan, compiled, run.timeline);
  for (const std::string& note : prediction.notes) console.note(note);
  keep_plan(console, arguments, named, target, loaded, compiled);
  DrawOptions drawing = console.drawing();
  drawing.device_names = compiled.devices;
  drawing.critical = longest_chain(program, costs, environment, run.timeline);
  write_timeline_files(arguments.files, run.timeline,
                       {{"kind", "predicted"}, {"plan", loaded.hash}}, drawing.critical,
                       {.title = concat(loaded.plan.model, " on ", loaded.plan.cluster),
                        .rows = row_names(loaded.plan, compiled)});
  console.print(plan_words(loaded.plan, loaded.profile.model, console.unicode()) + "\n");
  console.print(draw(run.timeline, drawing));
  const TableRows rows = console.verbose() ? TableRows::each : TableRows::together;
  console.print(plan_table(loaded.plan, loaded.profile.model, prediction, rows, console.unicode()));
  const auto room = room_for_requests(loaded.plan, loaded.profile, loaded.cluster);
  if (room) console.print(room_sentence(loaded.plan, loaded.cluster, *room));
  const auto served = serving_for(loaded.plan, loaded.profile, loaded.cluster);
  if (served) console.print(serving_text(*served, console.unicode()));
  const auto utilisation =
      utilisation_of(loaded.plan, loaded.profile.model, loaded.cluster, prediction);
  console.print(utilisation_sentence(loaded.plan, loaded.cluster, utilisation) +
                (before ? by_the_change(*before, prediction, console.unicode()) : "") +
                prediction_sentence(loaded.plan, loaded.cluster, prediction) + "\n" +
                remarks_on(run, compiled.devices));
  const Duration least_step = shortest_step(prediction, utilisation);
  const std::optional<Risk> risk = read_risk(arguments.risk);
  if (risk && environment)
    fail_usage("--risk is of the plain clock; leave the other conditions out");
  if (risk) {
    const Spreads spreads = spreads_of(*risk, loaded.profile, compiled);
    const StepInterval interval =
        within_peak(interval_of(compiled, spreads, risk->level), least_step);
    console.print(risk_sentence(interval, spreads, risk->level));
  }
  ordered_json result = timeline_json(run.timeline);
  if (arguments.changes.any()) result["changes"] = changes_json(sets.front());
  if (before && before->prediction) result["as_it_is"] = figures_json(*before->prediction);
  if (console.json() && !environment) {
    add_risk(result, risk, loaded.profile, compiled, {prediction.samples_per_second, least_step},
             device_peaks(loaded.plan, prediction));
  }
  if (arguments.conditions.policy != "async") result["link_policy"] = arguments.conditions.policy;
  add_memory(result, memory_peaks(run.timeline));
  result["fits"] = prediction.fits;
  if (room) result["request_room"] = room_json(*room);
  if (served) result["serving"] = serving_json(*served);
  add_conditions(result, run);
  const auto steady = steady_step(arguments, program, costs, environment);
  console.print(steady_sentence(steady));
  add_steady(result, steady, slowest_cycle(arguments, program, costs, environment));
  const auto steps = jittered(console, arguments, program, costs, environment.has_value());
  const auto devices = static_cast<int>(used_devices(loaded.plan).size());
  const auto failing = run_with_failures(console, arguments, devices, run.timeline);
  console.print(jitter_sentence(arguments, steps) + goodput_sentence(failing));
  const auto whole = training_run(arguments.run.tokens, loaded.plan, loaded.cluster,
                                  failing ? failing->effective_step : prediction.step);
  console.print(training_run_sentence(whole, loaded.plan, loaded.cluster));
  add_training_run(result, whole);
  add_jitter(result, steps);
  add_goodput(result, failing);
  if (console.json()) add_explanation(result, explain(program, costs, environment));
  console.print(fit_sentence(loaded.plan, prediction));
  add_utilisation(result, utilisation);
  add_rates(result, loaded.plan, prediction, utilisation);
  add_memory_limits(result, loaded.plan, prediction);
  name_cluster_devices(result, loaded.plan, compiled);
  console.result(result);
  return 0;
}

void declare_options(CLI::App& app, SimulateArguments& arguments) {
  app.add_option("plan", arguments.plan, "Plan file; none with --schedule")->type_name("PLAN");
  declare_scenario(app, arguments.scenario);
  declare_conditions(app, arguments.conditions);
  app.add_option("--iterations", arguments.iterations,
                 "Number of iterations; with more than one the result has their steady period (1)")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--barrier", arguments.barrier, "Barrier between iterations: on or off")
      ->type_name("B")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--jitter", arguments.jitter,
                 "Simulate --samples steps, each instruction up to this percentage faster or "
                 "slower at random")
      ->type_name("20%");
  app.add_option("--samples", arguments.samples,
                 "Number of samples for --jitter or --run-time (1000)")
      ->type_name("N")
      ->check(CLI::Range(1, 10'000'000));
  declare_failures(app, arguments.failures);
  declare_training_run(app, arguments.run);
  declare_serving(app, arguments.serving);
  declare_requests(app, arguments.requests, "With a plan for inference: ", true);
  declare_memory(app, arguments.memory, "With a plan");
  declare_risk(app, arguments.risk,
               "With a plan: print this percentile of the step time and its interval");
  declare_timeline_files(app, arguments.files);
  declare_changes(app, arguments.changes);
  app.add_option("--write-plan", arguments.kept,
                 "With a plan: write it, as --set and --replan change it, to FILE, for check, "
                 "report, export and run")
      ->type_name("FILE");
  declare_time_limit(app, arguments.time_limit);
  app.add_flag("--draw", arguments.draw, "Draw the timeline (default except with --json)");
}

/// Nothing that was said is left out without a word.
void refuse_without_effect(const CLI::App& app, const SimulateArguments& arguments) {
  if (arguments.plan.empty()) {
    refuse_given(app, {"--memory", "--mem-limit"},
                 "judges a PLAN; of a schedule, forwards wait for memory with --memory-limit SIZE");
    refuse_given(app, {"--output-tokens"},
                 "is of a PLAN; of a schedule --decode-steps N makes as many");
    refuse_given(app, {"--prompt-tokens"}, "is of a PLAN; of a schedule it is --prompt N");
    refuse_given(app, {"--chunk-tokens"}, "is of a PLAN, whose prompts are read in chunks");
    refuse_shape_of_files(app, read_words("--schedule", arguments.scenario.schedule));
    refuse_given(app, {"--tokens", "--price"}, "is about a PLAN, whose model has tokens");
    refuse_given(app, {"--risk", "--spread"},
                 "rests on how a plan's costs were found; of a schedule --jitter 5% varies them");
    refuse_given(app, {"--set", "--replan"},
                 "changes a PLAN; of a schedule every value has its own flag, which takes lists");
    refuse_given(app, {"--write-plan"},
                 "writes a PLAN; `stagecraft schedule show NAME -o FILE` writes a schedule");
  } else {
    refuse_flags_of_schedules(app, arguments.plan);
    if (!arguments.changes.any()) {
      refuse_given(app, {"--write-plan"},
                   concat("writes what --set or --replan make of a plan; without them it is ",
                          arguments.plan, " itself"));
    }
  }
  if (arguments.run.tokens.empty())
    refuse_given(app, {"--price"}, "goes with --tokens, the length of a run that it prices");
  refuse_idle_buffers(app, arguments.conditions.policy, arguments.conditions.protocol);
  if (arguments.iterations == 1)
    refuse_given(app, {"--barrier"}, "is between iterations: it goes with --iterations 2 or more");
  if (arguments.jitter.empty() && arguments.failures.work.empty())
    refuse_given(app, {"--samples"}, "goes with --jitter or --run-time");
}

/// A sweep of a plan asks none of the other questions.
void refuse_beside_sweep(const CLI::App& app) {
  const std::string remedy = "give each --set a single value";
  refuse_timeline_of_sweep(app, remedy);
  refuse_given(app, {"--iterations", "--jitter", "--mtbf", "--risk", "--write-plan"},
               concat("is about one plan; ", remedy));
}

}  // namespace

Action declare_simulate(CLI::App& app) {
  auto arguments = std::make_shared<SimulateArguments>();
  declare_options(app, *arguments);
  return [arguments, &app](Console& console) {
    require_valid(arguments->files);
    require_valid(arguments->failures);
    if (!arguments->kept.empty()) require_writable(arguments->kept);
    if (arguments->plan.empty() && arguments->scenario.schedule.empty())
      fail_usage("simulate needs either a PLAN or --schedule NAME; see stagecraft simulate --help");
    refuse_without_effect(app, *arguments);
    if (console.json())
      refuse_given(app, {"--draw"}, "draws for people; leave it out, or --json, or use --svg FILE");
    read_risk(arguments->risk);
    if (!arguments->jitter.empty()) read_percent("--jitter", arguments->jitter);
    if (change_sets(arguments->changes).size() > 1) refuse_beside_sweep(app);
    const TimeLimit limit(console, arguments->time_limit);
    return arguments->plan.empty() ? show_schedules(console, app, *arguments)
                                   : show_plan(console, *arguments);
  };
}

}  // namespace stagecraft
