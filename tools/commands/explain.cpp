// stagecraft explain PLAN, or --schedule NAME with durations: what limits the step, and what would
// shorten it.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "planner/costs/compile.hpp"
#include "planner/costs/device_memory.hpp"
#include "planner/costs/predict.hpp"
#include "planner/interop/load_plan.hpp"
#include "planner/plan/plan_words.hpp"
#include "simulator/checks/check.hpp"
#include "tools/commands.hpp"
#include "tools/options/applicable.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/change_options.hpp"
#include "tools/options/scenario.hpp"
#include "tools/options/schedule_argument.hpp"
#include "tools/options/time_limit.hpp"
#include "tools/reports/explanation.hpp"
#include "tools/reports/outcome.hpp"
#include "tools/reports/results.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct ExplainArguments {
  std::string plan;
  ScenarioOptions scenario;
  ConditionOptions conditions;
  ChangeFlags changes;
  std::string time_limit;
};

/// What is explained.
struct Subject {
  const Program& program;
  const Costs& costs;
  std::optional<Environment> environment;
  ordered_json result;                           ///< says what it is about
  const Plan* plan = nullptr;                    ///< whose program it is, if it is one's
  const Compiled* compiled = nullptr;            ///< of the plan
  std::vector<int> device_names;                 ///< as of an Explanation
  std::optional<std::vector<OneMore>> one_more;  ///< see WhatIf
};

/// What follows from the longest chain, which only the clock knows.
void show_chain(Console& console, const Subject& subject, const Explanation& explanation,
                ordered_json& result) {
  const bool unicode = console.unicode();
  const TableRows rows = console.verbose() ? TableRows::each : TableRows::together;
  console.print(
      "\nthe longest chain of work that waits for one another (rows with the same round "
      "alternate):\n" +
      critical_path_table(explanation, rows, unicode));
  console.print("\nwhere each device's step goes:\n" +
                attribution_table(explanation, rows, unicode));
  const WhatIf what_if{.step = explanation.step,
                       .effects = renamed(sensitivities(subject.program, subject.costs),
                                          subject.compiled != nullptr ? subject.compiled->devices
                                                                      : std::vector<int>{}),
                       .one_more = subject.one_more};
  console.print("\nwhat would change it:\n" +
                effects_table(what_if, subject.program, rows, unicode));
  console.print(one_more_sentence(what_if));
  add_explanation(result, explanation);
  add_what_if(result, what_if);
}

int show(Console& console, const Subject& subject) {
  const EventRun run = run_under(subject.environment, subject.program, subject.costs);
  Explanation explanation = explain(subject.program, subject.costs, subject.environment);
  explanation.device_names = subject.device_names;
  DrawOptions drawing = console.drawing();
  drawing.device_names = subject.device_names;
  if (explanation.path)
    drawing.critical = on_path(*explanation.path, subject.program, run.timeline);
  console.print(draw(run.timeline, drawing));
  console.print(limits_sentence(explanation) + remarks_on(run, subject.device_names));
  ordered_json result = subject.result;
  result.update(timeline_json(run.timeline));
  add_conditions(result, run);
  if (explanation.path) {
    show_chain(console, subject, explanation, result);
  } else {
    console.print("\nwhere each device's step goes:\n" +
                  attribution_table(explanation,
                                    console.verbose() ? TableRows::each : TableRows::together,
                                    console.unicode()));
    console.note(
        "what shares, waits or stops has no longest chain; without such flags it is shown");
    add_explanation(result, explanation);
  }
  if (subject.plan != nullptr) name_cluster_devices(result, *subject.plan, *subject.compiled);
  console.result(result);
  return 0;
}

int explain_plan(Console& console, const ExplainArguments& arguments) {
  const auto changes = one_change_set(arguments.changes, "explain");
  LoadedPlan given = load_plan(arguments.plan);
  console.input(given.path, given.hash);
  take_memory_of_question(given.cluster, given.plan);
  const ChangedPlan changed = apply(arguments.changes, changes, std::move(given));
  for (const std::string& note : changed.notes) console.note(note);
  const LoadedPlan& loaded = changed.loaded;
  const Compiled compiled = compile_counted(loaded.plan, loaded.profile, loaded.cluster);
  require_safe(compiled.program, {.device_names = compiled.devices});
  for (const std::string& note : compiled.notes) console.note(note);
  console.print(plan_words(loaded.plan, loaded.profile.model, console.unicode()) + "\n");
  std::optional<Environment> environment =
      environment_of(with_slow_devices(arguments.conditions, changed), compiled.program,
                     compiled.costs, site_of(loaded, compiled));
  return show(console, {.program = compiled.program,
                        .costs = compiled.costs,
                        .environment = std::move(environment),
                        .result = ordered_json::object(),
                        .plan = &loaded.plan,
                        .compiled = &compiled,
                        .device_names = compiled.devices,
                        .one_more = {}});
}

int explain_schedule(Console& console, const ExplainArguments& arguments) {
  const std::vector<ScheduleSetting> settings = settings_of(arguments.scenario, console);
  if (settings.size() > 1) {
    fail_usage("explain takes one setting, not ", settings.size(),
               "; stagecraft simulate makes sweeps");
  }
  const Scenario scenario = scenario_of(settings.front(), arguments.scenario);
  const ScheduleSetting& setting = scenario.setting;
  std::optional<std::vector<OneMore>> one_more;
  if (setting.kind != nullptr) {
    one_more = one_more_in_flight(*setting.kind, setting.shape, scenario.costs, scenario.lowering);
  }
  return show(console, {.program = scenario.program,
                        .costs = scenario.costs,
                        .environment = environment_of(arguments.conditions, scenario),
                        .result = setting_json(setting),
                        .plan = nullptr,
                        .compiled = nullptr,
                        .device_names = {},
                        .one_more = std::move(one_more)});
}

}  // namespace

Action declare_explain(CLI::App& app) {
  auto arguments = std::make_shared<ExplainArguments>();
  app.add_option("plan", arguments->plan, "Plan file; none with --schedule")->type_name("PLAN");
  declare_scenario(app, arguments->scenario);
  declare_conditions(app, arguments->conditions);
  declare_changes(app, arguments->changes);
  declare_time_limit(app, arguments->time_limit);
  return [arguments, &app](Console& console) {
    if (arguments->plan.empty() && arguments->scenario.schedule.empty())
      fail_usage("explain needs either a PLAN or --schedule NAME; see stagecraft explain --help");
    if (!arguments->plan.empty()) {
      refuse_flags_of_schedules(app, arguments->plan);
    } else {
      refuse_shape_of_files(app, read_words("--schedule", arguments->scenario.schedule));
      refuse_given(app, {"--set", "--replan"},
                   "changes a PLAN; of a schedule every value has its own flag");
    }
    refuse_idle_buffers(app, arguments->conditions.policy, arguments->conditions.protocol);
    const TimeLimit limit(console, arguments->time_limit);
    return arguments->plan.empty() ? explain_schedule(console, *arguments)
                                   : explain_plan(console, *arguments);
  };
}

}  // namespace stagecraft
