// stagecraft check PLAN | SCHEDULE: proves it safe with code that lowering does not share, or says
// why not.

#include "simulator/checks/check.hpp"
#include "planner/interop/load_plan.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "planner/analysis/frameworks.hpp"
#include "planner/costs/compile.hpp"
#include "planner/interop/other_files.hpp"
#include "planner/plan/plan_words.hpp"
#include "profiles/json.hpp"
#include "profiles/missing_file.hpp"
#include "profiles/text.hpp"
#include "simulator/simulate.hpp"
#include "tools/commands.hpp"
#include "tools/options/applicable.hpp"
#include "tools/options/memory_options.hpp"
#include "tools/options/schedule_argument.hpp"
#include "tools/options/shape_options.hpp"
#include "tools/options/time_limit.hpp"
#include "tools/reports/check_report.hpp"
#include "tools/reports/results.hpp"

namespace stagecraft {
namespace {

struct CheckArguments {
  std::string subject;
  ShapeOptions shape;
  MemoryOptions memory;
  int microbatches = 8;
  int messages_in_flight = 0;
  bool certificate = false;
  std::string target, time_limit;
};

/// What a subject turned out to be.
struct Checked {
  CheckReport report;
  std::optional<Verification> bound;          ///< of a plan, if asked for
  std::optional<FrameworkVerdict> framework;  ///< of a plan, if asked for
};

/// What each device holds at most. Nothing of a program that cannot proceed, as the check will say.
std::vector<MemoryUse> timed_memory(const Compiled& compiled) {
  std::vector<MemoryUse> uses;
  try {
    for (const MemoryPeak& peak : memory_peaks(simulate(compiled.program, compiled.costs)))
      uses.push_back(peak.use);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::check) throw;
  }
  return uses;
}

Checked check_plan(Console& console, const LoadedPlan& loaded, const CheckArguments& arguments,
                   CheckOptions options) {
  console.input(loaded.path, loaded.hash);
  console.print(plan_words(loaded.plan, loaded.profile.model, console.unicode()) + "\n");
  LoadedPlan judged = loaded;
  set_memory(arguments.memory, judged, console);
  const Compiled compiled = compile_to_read(judged.plan, judged.profile, judged.cluster);
  if (!compiled.stand_ins.empty()) console.note(compiled.notes.back());
  options.memory_limits = compiled.memory_limits;
  options.device_names = compiled.devices;
  options.timed = timed_memory(compiled);
  CheckReport report = check(compiled.program, options);
  const int layers = static_cast<int>(loaded.profile.model.layers.size());
  report.proved.insert(report.proved.begin(),
                       concat(layers, " of ", layers, " layers placed, each once"));
  Checked checked{std::move(report), {}, {}};
  if (!arguments.target.empty()) {
    const Target& target = find_target(arguments.target);
    checked.framework = {&target, reasons_against(target, loaded)};
  }
  // A bound is verified for what was asked when the plan was made.
  if (!arguments.certificate) return checked;
  checked.bound = verify_bound(loaded.plan, loaded.profile, loaded.cluster);
  if (loaded.plan.search->question->objective == ObjectiveKind::cost)
    console.note("the certificate speaks of plans on all of these devices; `plan` compared others");
  return checked;
}

/// What is said of plans goes with no schedule.
void require_of_schedule(const CheckArguments& arguments) {
  if (arguments.certificate) {
    fail_usage("--certificate verifies the bound of a plan; ", arguments.subject, " is a schedule");
  }
  if (!arguments.target.empty())
    fail_usage("--for judges a plan; ", arguments.subject, " is a schedule");
  if (is_given(arguments.memory)) {
    fail_usage("--memory and --mem-limit judge a plan; ", arguments.subject, " is a schedule");
  }
}

Checked check_schedule(Console& console, const CheckArguments& arguments,
                       const CheckOptions& options) {
  require_of_schedule(arguments);
  return {
      check(program_to_check(console, arguments.subject, arguments.shape, arguments.microbatches),
            options),
      {},
      {}};
}

/// Files and standard input say by their content what they are.
bool is_file(const std::string& subject) {
  return subject == "-" || subject.ends_with(".json") || subject.ends_with(".csv") ||
         std::filesystem::exists(subject);
}

Checked check_file(Console& console, const CLI::App& app, const CheckArguments& arguments,
                   const CheckOptions& options) {
  const std::string& path = arguments.subject;
  require_file(path, {"`stagecraft plan MODEL CLUSTER -o FILE` makes a plan, and "
                      "`stagecraft schedule list` names schedules"});
  const std::string text = read_file(path);
  if (path.ends_with(".csv") || looks_like_torch_csv(text)) {
    const TorchReading reading{.pipes = arguments.shape.pipes.value_or(1),
                               .sequence_chunks = arguments.shape.sequence_chunks};
    require_of_schedule(arguments);
    refuse_shape_of_files(app, {path});
    return {check(lower(read_schedule_text(console, text, path, reading)), options), {}, {}};
  }
  const bool is_json = path.ends_with(".json") || trim(text).starts_with('{');
  if (!is_json) {
    const std::string file = path == "-" ? "standard input" : path;
    refuse_all_but_plans(text, file);
    fail(file, ": expected a plan (JSON) or a schedule (the CSV of torch.distributed.pipelining)");
  }
  refuse_given(app, shape_flags, "describes a schedule by its name; a plan has its own");
  return check_plan(console, load_plan_text(text, path), arguments, options);
}

}  // namespace

Action declare_check(CLI::App& app) {
  auto arguments = std::make_shared<CheckArguments>();
  app.add_option("subject", arguments->subject,
                 "Plan, name of a schedule, or its torch CSV; - is standard input")
      ->type_name("PLAN|SCHEDULE")
      ->required();
  declare_shape(app, arguments->shape);
  app.add_option("--microbatches", arguments->microbatches,
                 "With a schedule: microbatches per iteration (8)")
      ->type_name("M")
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--messages-in-flight", arguments->messages_in_flight,
                 "Messages that a channel buffers before a send blocks (0)")
      ->type_name("K")
      ->check(CLI::Range(0, 10'000'000));
  app.add_flag(
      "--certificate", arguments->certificate,
      "With a plan: verify that the plan answers its question and that its lower bound holds");
  app.add_option("--for", arguments->target,
                 "With a plan: check that this framework can run it, or print every reason why not")
      ->type_name("NAME");
  declare_memory(app, arguments->memory, "With a plan");
  declare_time_limit(app, arguments->time_limit);
  return [arguments, &app](Console& console) {
    const CheckOptions options{.memory_limits = {},
                               .messages_in_flight = arguments->messages_in_flight};
    const TimeLimit limit(console, arguments->time_limit);
    const Checked checked = is_file(arguments->subject)
                                ? check_file(console, app, *arguments, options)
                                : check_schedule(console, *arguments, options);
    return show_report(console, checked.report, checked.bound, checked.framework);
  };
}

}  // namespace stagecraft
