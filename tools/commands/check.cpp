// stagecraft check PLAN | SCHEDULE: proves it safe with code that lowering does not share, or says
// why not.

#include "simulator/check.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "planner/predict.hpp"
#include "simulator/lower.hpp"
#include "simulator/schedules.hpp"
#include "tools/commands.hpp"
#include "tools/shape_options.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct CheckArguments {
  std::string subject;
  ShapeOptions shape;
  int microbatches = 8;
};

ordered_json finding_json(const Finding& finding) {
  return {{"rule", finding.rule},
          {"message", finding.message},
          {"device", finding.device},
          {"instruction", to_string(finding.instruction)},
          {"cycle", finding.cycle}};
}

bool names_a_schedule(const std::string& subject) {
  if (std::filesystem::exists(subject) || subject == "-" || subject.ends_with(".json"))
    return false;
  find_schedule(subject);
  return true;
}

CheckReport check_schedule(const CheckArguments& arguments) {
  const ScheduleKind& kind = find_schedule(arguments.subject);
  return check(lower(kind.generate(shape_from(arguments.shape, kind, arguments.microbatches))));
}

CheckReport check_plan(Console& console, const std::string& path) {
  const LoadedPlan loaded = load_plan(path);
  console.input(loaded.path, loaded.hash);
  const Compiled compiled = compile(loaded.plan, loaded.profile, loaded.cluster);
  CheckReport report = check(compiled.program, {.memory_limits = compiled.memory_limits});
  const int layers = static_cast<int>(loaded.profile.model.layers.size());
  report.proved.insert(report.proved.begin(),
                       concat(layers, " of ", layers, " layers placed, each once"));
  return report;
}

std::string report_text(const CheckReport& report, bool unicode) {
  std::string text;
  for (const std::string& proved : report.proved)
    text += concat(unicode ? " ✔ " : " ok ", proved, "\n");
  for (const Finding& finding : report.findings) {
    text += concat(unicode ? " ✗ " : " NO ", finding.rule, ": ", finding.message, "\n");
    for (const std::string& wait : finding.cycle) text += "     " + wait + "\n";
  }
  return text;
}

int report_on(Console& console, const CheckReport& report) {
  ordered_json findings = ordered_json::array();
  for (const Finding& finding : report.findings) findings.push_back(finding_json(finding));
  const ordered_json result{
      {"safe", report.safe()}, {"proved", report.proved}, {"findings", std::move(findings)}};
  console.print(report_text(report, console.unicode()));
  if (report.safe()) {
    console.result(result);
    return 0;
  }
  return console.error(
      Error(ErrorKind::check, concat("not safe: ", report.findings.front().message)), &result);
}

}  // namespace

Action declare_check(CLI::App& app) {
  auto arguments = std::make_shared<CheckArguments>();
  app.add_option("subject", arguments->subject, "A plan, or a schedule's name")
      ->type_name("PLAN|SCHEDULE")
      ->required();
  declare_shape(app, arguments->shape);
  app.add_option("--microbatches", arguments->microbatches, "Of a schedule: per iteration (8)")
      ->type_name("M")
      ->check(CLI::Range(1, 10'000'000));
  return [arguments](Console& console) {
    return report_on(console, names_a_schedule(arguments->subject)
                                  ? check_schedule(*arguments)
                                  : check_plan(console, arguments->subject));
  };
}

}  // namespace stagecraft
