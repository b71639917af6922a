// stagecraft calibrate MEASURED…: constants from measurements, how sure they are, and what to
// measure next. stagecraft calibrate PLAN TRACE: a profile from a run's timeline.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "planner/calibration/ledger.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "tools/commands.hpp"
#include "tools/inputs/timeline_calibration.hpp"
#include "tools/options/arguments.hpp"
#include "tools/reports/ledger_files.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct Calibrated {
  Calibration calibration;
  SetResult before, after;
  std::optional<SetResult> held_out;  ///< fitted on a quarter, for an honest error
  std::optional<NextMeasurement> next;
};

Calibrated calibrate(const MeasuredSet& set, std::uint64_t seed) {
  Calibrated result;
  std::vector<int> rows(set.rows.size());
  std::iota(rows.begin(), rows.end(), 0);
  result.before = replay_with(set, {.constants = set.start});
  result.calibration = fit_constants(set, rows, has_enough_for_corrections(set, rows));
  result.after = replay_with(set, result.calibration);
  if (set.rows.size() >= 4) result.held_out = replay(set, Claim::in_family, seed);
  result.next = next_measurement(set, result.calibration);
  return result;
}

/// As many constants as rows leave nothing to tell how sure they are.
std::string interval_text(const FittedConstant& constant) {
  return constant.interval > 0 ? readable(constant.interval, 2) : "?";
}

/// Of logs: so many steps, and how they vary.
std::string steps_text(const MeasuredSet& set) {
  int steps = 0;
  double least = 1e9, most = 0;
  for (const MeasuredRow& row : set.rows) {
    if (row.steps == 0) continue;
    steps += row.steps;
    least = std::min(least, row.spread);
    most = std::max(most, row.spread);
  }
  if (steps == 0) return "";
  return fmt::format(
      "medians of {} steps; those of a run vary by {:.2f} % to {:.2f} % (p10 to p90)\n", steps,
      100 * least, 100 * most);
}

std::string text_of(const MeasuredSet& set, const Calibrated& result, bool unicode) {
  std::string text =
      fmt::format("{} ({}, {})\n", set.name, set.device, number_of(std::ssize(set.rows), "row"));
  Table table({"constant", ">before", ">fitted", ">+- 95 %", "unit", "what it is"});
  for (const FittedConstant& constant : result.calibration.fitted) {
    for (const KernelConstant& known : kernel_constants) {
      if (known.name != constant.name) continue;
      table.row({constant.name, readable(constant.start), readable(constant.value),
                 interval_text(constant), std::string(known.unit), std::string(known.meaning)});
    }
  }
  text += table.text(unicode);
  text += steps_text(set);
  if (!result.calibration.corrections.empty()) {
    text += fmt::format("and {} factors, one for layers of each shape\n",
                        result.calibration.corrections.size());
  }
  text += fmt::format("mean error: {:.2f} % before, {:.2f} % on the fitted rows",
                      100 * result.before.time.mape, 100 * result.after.time.mape);
  if (result.held_out) {
    text += fmt::format(", {:.2f} % on rows left out of a fit on a quarter",
                        100 * result.held_out->time.mape);
  }
  text += "\n";
  if (result.next) {
    text += fmt::format(
        "least certain: {}; one more measurement like \"{}\" would narrow it by {:.0f} %\n",
        result.next->constant, result.next->row, 100 * result.next->narrows);
  }
  return text;
}

ordered_json json_of(const MeasuredSet& set, const Calibrated& result) {
  ordered_json constants = ordered_json::array();
  for (const FittedConstant& constant : result.calibration.fitted) {
    constants.push_back({{"name", constant.name},
                         {"before", constant.start},
                         {"value", constant.value},
                         {"interval", constant.interval}});
  }
  ordered_json json{{"name", set.name},
                    {"device", set.device},
                    {"rows", set.rows.size()},
                    {"constants", std::move(constants)},
                    {"corrections", result.calibration.corrections},
                    {"mape_before", result.before.time.mape},
                    {"mape_fitted", result.after.time.mape}};
  if (result.held_out) json["mape_held_out"] = result.held_out->time.mape;
  if (result.next) {
    json["next_measurement"] = {{"constant", result.next->constant},
                                {"row", result.next->row},
                                {"narrows", result.next->narrows}};
  }
  return json;
}

int calibrate_sets(Console& console, const std::vector<std::string>& paths,
                   const RunFileOptions& options) {
  const MeasuredFiles files = load_measured(paths, options, console);
  std::vector<NamedCalibration> calibrations;
  ordered_json sets = ordered_json::array();
  for (const MeasuredSet& set : files.sets) {
    for (const std::string& row : set.left_out) console.note("left out: " + row);
    if (set.unknowns.empty() || set.rows.empty()) continue;
    const Calibrated result = calibrate(set, console.options().seed);
    console.print((sets.empty() ? "" : "\n") + text_of(set, result, console.unicode()));
    sets.push_back(json_of(set, result));
    calibrations.push_back({set.name, set.device, result.calibration});
  }
  console.artefact(write_constants(calibrations));
  console.result({{"sets", std::move(sets)}});
  return 0;
}

bool names_plan(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return false;
  const std::string content = read_file(path);
  return trim(content.substr(0, 64)).starts_with('{') && is_plan(Json::parse(content, path));
}

int run(Console& console, const std::vector<std::string>& paths, const RunFileOptions& options,
        TimelineCalibration timeline) {
  if (paths.empty()) {
    fail_usage("calibrate needs MEASURED, files or folders of measured sets, or PLAN and TRACE");
  }
  if (!names_plan(paths.front())) {
    if (!timeline.cluster_file.empty() || !timeline.plan_file.empty())
      fail_usage("--cluster and --plan are for calibrate PLAN TRACE");
    return calibrate_sets(console, paths, options);
  }
  if (paths.size() != 2) {
    fail_usage("calibrate ", paths.front(), " needs one TRACE of a run of it: stagecraft run ",
               paths.front(), " --trace FILE --trace-steps 20");
  }
  if (!options.device.empty())
    fail_usage("--device is for logs and tables that do not name their device; a plan does");
  timeline.plan = paths[0];
  timeline.trace = paths[1];
  return calibrate_by_timeline(console, timeline);
}

}  // namespace

Action declare_calibrate(CLI::App& app) {
  auto paths = std::make_shared<std::vector<std::string>>();
  auto timeline = std::make_shared<TimelineCalibration>();
  auto options = std::make_shared<RunFileOptions>();
  app.add_option("measured", *paths,
                 "Files or folders with measured sets, tables (CSV) or logs of runs (-o writes the "
                 "constants), or a plan and a trace of its run (-o writes the profile)")
      ->type_name("MEASURED|PLAN TRACE");
  app.add_option("--cluster", timeline->cluster_file,
                 "With a trace: write the cluster with its measured links to FILE")
      ->type_name("FILE");
  app.add_option(
         "--plan", timeline->plan_file,
         "With a trace: write the plan with the new profile and prediction to FILE; needs -o")
      ->type_name("FILE");
  declare_run_options(app, *options);
  return [=](Console& console) { return run(console, *paths, *options, *timeline); };
}

}  // namespace stagecraft
