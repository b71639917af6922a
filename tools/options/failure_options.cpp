#include "tools/options/arguments.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "profiles/error.hpp"
#include "tools/options/failure_options.hpp"
#include "tools/table.hpp"

namespace stagecraft {

namespace {

Duration read_or_zero(std::string_view flag, const std::string& text) {
  return text.empty() ? Duration{0} : read_duration(flag, text);
}

Duration effective_step(Duration step, double goodput) {
  const double time = static_cast<double>(step.count()) / goodput;
  if (!(time < 0x1p63)) {
    fail("--mtbf: failures are so frequent that no work is ever done; checkpoint more often, or ",
         "recover faster");
  }
  return Duration{std::llround(time)};
}

/// "250h", "2.036h", "10min".
std::string format_long(Duration time) {
  if (time >= std::chrono::hours(1)) return readable(seconds(time) / 3600) + "h";
  if (time >= std::chrono::minutes(1)) return readable(seconds(time) / 60) + "min";
  return format_duration(time);
}

}  // namespace

void declare_failures(CLI::App& app, FailureFlags& flags) {
  app.add_option("--mtbf", flags.between_failures,
                 "Mean time between failures of one device, for the goodput of a long run")
      ->type_name("D");
  app.add_option("--checkpoint", flags.checkpoint, "With --mtbf: time to write a checkpoint")
      ->type_name("D");
  app.add_option("--checkpoint-every", flags.interval,
                 "With --mtbf: work between checkpoints (the interval with the highest goodput)")
      ->type_name("D");
  app.add_option("--restart", flags.restart,
                 "With --mtbf: time from a failure until the run continues (0)")
      ->type_name("D");
  app.add_option("--run-time", flags.work,
                 "With --mtbf: amount of work in a run; --samples runs are simulated, and their "
                 "spread is printed")
      ->type_name("D");
}

void require_valid(const FailureFlags& flags) {
  if (flags.between_failures.empty()) {
    for (const std::string* flag :
         {&flags.checkpoint, &flags.interval, &flags.restart, &flags.work}) {
      if (!flag->empty()) {
        fail_usage("--checkpoint, --checkpoint-every, --restart and --run-time need --mtbf ",
                   "DURATION, the time between failures of a device");
      }
    }
    return;
  }
  if (flags.checkpoint.empty())
    fail_usage("--mtbf needs --checkpoint DURATION, the time to write one");
  read_duration("--mtbf", flags.between_failures);
  read_duration("--checkpoint", flags.checkpoint);
  read_or_zero("--checkpoint-every", flags.interval);
  read_or_zero("--restart", flags.restart);
  read_or_zero("--run-time", flags.work);
}

std::optional<LongRun> long_run(const FailureFlags& flags, int devices, Duration step,
                                const FailureOptions& options) {
  if (flags.between_failures.empty()) return {};
  LongRun run{.model = {.devices = devices,
                        .between_failures = read_duration("--mtbf", flags.between_failures),
                        .checkpoint = read_duration("--checkpoint", flags.checkpoint),
                        .interval = Duration{1},
                        .recovery = read_or_zero("--restart", flags.restart)}};
  run.best_interval = daly_interval(run.model);
  run.model.interval = flags.interval.empty() ? run.best_interval
                                              : read_duration("--checkpoint-every", flags.interval);
  run.goodput = goodput(run.model);
  run.effective_step = effective_step(step, run.goodput);
  if (flags.work.empty()) return run;
  run.work = read_duration("--run-time", flags.work);
  run.samples = simulate_failures(
      run.model, {.work = *run.work, .samples = options.samples, .seed = options.seed});
  return run;
}

void add_goodput(nlohmann::ordered_json& result, const std::optional<LongRun>& run) {
  if (!run) return;
  nlohmann::ordered_json json{{"expected", run->goodput},
                              {"checkpoint_every_ns", run->model.interval.count()},
                              {"best_checkpoint_every_ns", run->best_interval.count()},
                              {"effective_step_ns", run->effective_step.count()}};
  if (run->samples) {
    json["runs"] = {{"mean", run->samples->mean},
                    {"p5", run->samples->p5},
                    {"p50", run->samples->p50},
                    {"p95", run->samples->p95},
                    {"failures", run->samples->failures}};
  }
  result["goodput"] = std::move(json);
}

std::string goodput_sentence(const std::optional<LongRun>& run) {
  if (!run) return "";
  const FailureModel& model = run->model;
  std::string text = fmt::format(
      "goodput {:.2f} % with a failure of {} every {} and a checkpoint every {} "
      "(best: {}): a step counts as {}\n",
      100 * run->goodput,
      model.devices == 1 ? "its device" : fmt::format("one of {} devices", model.devices),
      format_long(model.between_failures / model.devices), format_long(model.interval),
      format_long(run->best_interval), format_duration(run->effective_step));
  if (!run->samples) return text;
  const GoodputSamples& runs = *run->samples;
  return text + fmt::format(
                    "runs with {} of work: mean {:.2f} %   p5 {:.2f} %   p50 {:.2f} %   "
                    "p95 {:.2f} %   {:.3g} failures each\n",
                    format_long(*run->work), 100 * runs.mean, 100 * runs.p5, 100 * runs.p50,
                    100 * runs.p95, runs.failures);
}

}  // namespace stagecraft
