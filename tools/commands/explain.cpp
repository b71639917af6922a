// stagecraft explain PLAN, or --schedule NAME with durations: what limits the step, and what would
// shorten it.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "planner/predict.hpp"
#include "simulator/check.hpp"
#include "tools/commands.hpp"
#include "tools/explanation.hpp"
#include "tools/results.hpp"
#include "tools/scenario.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct ExplainArguments {
  std::string plan;
  ScenarioOptions scenario;
};

/// `result` says what it is about, `one_more` what memory for one more microbatch would bring.
void show(Console& console, const Program& program, const Costs& costs, ordered_json result,
          std::vector<Duration> one_more) {
  const Timeline timeline = simulate(program, costs);
  const Explanation explanation = explain(program, costs);
  const WhatIf what_if{.step = explanation.step,
                       .effects = sensitivities(program, costs),
                       .one_more_in_flight = std::move(one_more)};
  const bool unicode = console.unicode();
  console.print(draw(timeline, console.drawing()));
  console.print(limits_sentence(explanation));
  console.print("\nthe longest chain (rows of one round take turns):\n" +
                critical_path_table(explanation.path, unicode));
  console.print("\nwhere each device's step goes:\n" +
                attribution_table(explanation.devices, unicode));
  console.print("\nwhat would change it:\n" + effects_table(what_if, unicode));
  console.print(one_more_sentence(what_if));
  result.update(timeline_json(timeline));
  add_explanation(result, explanation);
  add_what_if(result, what_if);
  console.result(result);
}

int explain_plan(Console& console, const std::string& path) {
  const LoadedPlan loaded = load_plan(path);
  console.input(loaded.path, loaded.hash);
  const Compiled compiled = compile(loaded.plan, loaded.profile, loaded.cluster);
  require_safe(compiled.program);
  for (const std::string& note : compiled.notes) console.note(note);
  show(console, compiled.program, compiled.costs, ordered_json::object(), {});
  return 0;
}

int explain_schedule(Console& console, const ScenarioOptions& options) {
  const std::vector<ScheduleSetting> settings = settings_of(options, console);
  if (settings.size() > 1) {
    fail_usage("explain takes one setting, not ", settings.size(),
               "; stagecraft simulate makes sweeps");
  }
  const Scenario scenario = scenario_of(settings.front(), options);
  const ScheduleSetting& setting = scenario.setting;
  std::vector<Duration> one_more;
  if (setting.kind != nullptr && setting.kind->generate == one_f_one_b) {
    one_more = one_more_in_flight(setting.shape, scenario.costs, scenario.lowering);
  }
  show(console, scenario.program, scenario.costs, setting_json(setting), std::move(one_more));
  return 0;
}

}  // namespace

Action declare_explain(CLI::App& app) {
  auto arguments = std::make_shared<ExplainArguments>();
  app.add_option("plan", arguments->plan, "A plan; or leave it out and give --schedule")
      ->type_name("PLAN");
  declare_scenario(app, arguments->scenario);
  return [arguments](Console& console) {
    if (arguments->plan.empty() == arguments->scenario.schedule.empty())
      fail_usage("explain needs either a PLAN or --schedule NAME; see stagecraft explain --help");
    return arguments->plan.empty() ? explain_schedule(console, arguments->scenario)
                                   : explain_plan(console, arguments->plan);
  };
}

}  // namespace stagecraft
