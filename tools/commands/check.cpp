// stagecraft check PLAN | SCHEDULE: proves it safe with code that lowering does not share, or says
// why not.

#include "simulator/check.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "planner/predict.hpp"
#include "tools/check_report.hpp"
#include "tools/commands.hpp"
#include "tools/schedule_argument.hpp"
#include "tools/shape_options.hpp"

namespace stagecraft {
namespace {

struct CheckArguments {
  std::string subject;
  ShapeOptions shape;
  int microbatches = 8;
  int messages_in_flight = 0;
};

/// Standard input is a plan's; `schedule check -` reads a schedule.
bool is_plan(const std::string& subject) {
  if (subject == "-" || subject.ends_with(".json")) return true;
  return std::filesystem::exists(subject) && !is_schedule_file(subject);
}

CheckReport check_schedule(Console& console, const CheckArguments& arguments,
                           const CheckOptions& options) {
  return check(
      lower(find_schedule(console, arguments.subject, arguments.shape, arguments.microbatches)),
      options);
}

CheckReport check_plan(Console& console, const std::string& path, CheckOptions options) {
  const LoadedPlan loaded = load_plan(path);
  console.input(loaded.path, loaded.hash);
  const Compiled compiled = compile(loaded.plan, loaded.profile, loaded.cluster);
  options.memory_limits = compiled.memory_limits;
  CheckReport report = check(compiled.program, options);
  const int layers = static_cast<int>(loaded.profile.model.layers.size());
  report.proved.insert(report.proved.begin(),
                       concat(layers, " of ", layers, " layers placed, each once"));
  return report;
}

}  // namespace

Action declare_check(CLI::App& app) {
  auto arguments = std::make_shared<CheckArguments>();
  app.add_option("subject", arguments->subject, "A plan, a schedule's name, or its torch CSV")
      ->type_name("PLAN|SCHEDULE")
      ->required();
  declare_shape(app, arguments->shape);
  app.add_option("--microbatches", arguments->microbatches, "Of a schedule: per iteration (8)")
      ->type_name("M")
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--messages-in-flight", arguments->messages_in_flight,
                 "Messages a channel buffers before a send blocks (0)")
      ->type_name("K")
      ->check(CLI::Range(0, 10'000'000));
  return [arguments](Console& console) {
    const CheckOptions options{.memory_limits = {},
                               .messages_in_flight = arguments->messages_in_flight};
    return show_report(console, is_plan(arguments->subject)
                                    ? check_plan(console, arguments->subject, options)
                                    : check_schedule(console, *arguments, options));
  };
}

}  // namespace stagecraft
