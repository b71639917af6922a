// stagecraft ledger: every public measured set replayed, and how far off we are.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "planner/calibration/ledger.hpp"
#include "tools/commands.hpp"
#include "tools/reports/ledger_files.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct LedgerArguments {
  RunFileOptions runs;
  std::vector<std::string> sets;
  std::string constants;
  bool shipped = false;
  std::string plot;
};

std::string percent_of(double fraction) {
  return fmt::format("{:.2f} %", 100 * fraction);
}

ordered_json errors_json(const ErrorSummary& errors) {
  return {{"rows", errors.rows}, {"mape", errors.mape}, {"median", errors.median},
          {"p90", errors.p90},   {"max", errors.max},   {"worst_row", errors.worst_row},
          {"bias", errors.bias}};
}

ordered_json rows_json(const SetResult& result) {
  ordered_json rows = ordered_json::array();
  for (const LedgerRow& row : result.rows) {
    ordered_json each{{"label", row.label},         {"family", row.family},
                      {"fitted", row.fitted},       {"measured", row.measured},
                      {"predicted", row.predicted}, {"error", row.error()}};
    if (!row.predicted_by.empty()) each["predicted_by"] = row.predicted_by;
    if (row.memory) each["measured_memory_bytes"] = *row.memory;
    if (row.predicted_memory) each["predicted_memory_bytes"] = *row.predicted_memory;
    rows.push_back(std::move(each));
  }
  return rows;
}

/// Where the constants of a set are from.
std::string constants_in_words(const SetResult& result) {
  if (result.claim != Claim::nothing_fitted) {
    return fmt::format("constants of {}, of which {} are fitted on {} of its rows", result.device,
                       result.calibration.fitted.size(), result.fitted_on);
  }
  return fmt::format("constants of {}, fitted on other runs", result.device);
}

ordered_json set_json(const SetResult& result) {
  ordered_json constants = ordered_json::array();
  for (const FittedConstant& constant : result.calibration.fitted) {
    constants.push_back({{"name", constant.name},
                         {"value", constant.value},
                         {"interval", constant.interval},
                         {"start", constant.start}});
  }
  ordered_json json{{"name", result.name},         {"claim", to_string(result.claim)},
                    {"device", result.device},     {"unit", result.unit},
                    {"rows", result.rows.size()},  {"fitted_on", result.fitted_on},
                    {"held_out", result.time.rows}};
  json.update(errors_json(result.time));
  json["rows"] = result.rows.size();
  json["rank_correlation"] = result.rank_correlation;
  json["worst_rank_correlation"] = result.worst_rank_correlation;
  json["regret"] = result.regret;
  if (result.interval) {
    json["interval"] = *result.interval;
    json["covered"] = result.covered;
  }
  json["problems"] = result.problems;
  json["constants"] = std::move(constants);
  json["corrections"] = result.calibration.corrections;
  if (result.memory.rows > 0) json["memory"] = errors_json(result.memory);
  json["predicted_with"] = constants_in_words(result);
  json["assumptions"] = result.assumptions;
  json["left_out"] = result.left_out;
  json["measurements"] = rows_json(result);
  return json;
}

std::string summary_table(const std::vector<SetResult>& results, bool unicode) {
  Table table({"set", "claim", ">rows", ">fitted", ">mean", ">median", ">p90", ">max", ">bias",
               ">rank", ">regret", ">p10-p90", ">within"});
  for (const SetResult& result : results) table.row(ledger_cells(result, unicode));
  return table.text(unicode);
}

std::string memory_lines(const std::vector<SetResult>& results) {
  std::string text, last;
  for (const SetResult& result : results) {
    if (result.memory.rows == 0 || result.name == last) continue;
    last = result.name;
    text += fmt::format("memory of {}: {}, mean {}, max {} ({}); nothing fitted\n", result.name,
                        number_of(result.memory.rows, "row"), percent_of(result.memory.mape),
                        percent_of(result.memory.max), result.memory.worst_row);
  }
  return text;
}

/// Rows that cannot be predicted, by reason; each by name in JSON and on the page.
std::string left_out_lines(const SetResult& result) {
  std::map<std::string, int> reasons;
  for (const std::string& row : result.left_out) ++reasons[row.substr(row.find(": ") + 2)];
  std::string text;
  for (const auto& [reason, rows] : reasons)
    text += fmt::format("  left out, {} row{}: {}\n", rows, rows == 1 ? "" : "s", reason);
  return text;
}

std::string details(const SetResult& result) {
  std::string text = fmt::format("\n{}, {}: worst {}\n", result.name, to_string(result.claim),
                                 result.time.worst_row);
  for (const std::string& assumption : result.assumptions)
    text += fmt::format("  assumed: {}\n", assumption);
  for (const FittedConstant& constant : result.calibration.fitted) {
    text += fmt::format("  {} = {} +- {} (was {})\n", constant.name, readable(constant.value),
                        readable(constant.interval, 2), readable(constant.start));
  }
  if (!result.calibration.corrections.empty()) {
    text += fmt::format("  and {} factors, one for layers of each shape\n",
                        result.calibration.corrections.size());
  }
  return text + left_out_lines(result);
}

std::string all_rows(const SetResult& result, bool unicode) {
  Table table({"row", "", ">measured", ">predicted", ">error", "predicted by"});
  for (const LedgerRow& row : result.rows) {
    table.row({row.label, row.fitted ? "fitted" : "", readable(row.measured, 5),
               readable(row.predicted, 5), signed_percent(row.error()), row.predicted_by});
  }
  return table.text(unicode);
}

std::vector<SetResult> results_of(const MeasuredFiles& files, const LedgerArguments& arguments,
                                  Console& console) {
  std::vector<NamedCalibration> known;
  if (!arguments.constants.empty()) {
    const std::string content = read_file(arguments.constants);
    console.input(arguments.constants, content_hash(content));
    known = read_constants(Json::parse(content, arguments.constants));
  }
  std::vector<SetResult> results;
  for (const MeasuredSet& set : files.sets) {
    if (arguments.shipped) {
      results.push_back(replay_usual(set));
      continue;
    }
    if (arguments.constants.empty()) {
      for (SetResult& result : replay_all(set, console.options().seed))
        results.push_back(std::move(result));
      continue;
    }
    const NamedCalibration* found = constants_for(known, set);
    if (found == nullptr && !set.unknowns.empty()) {
      console.note(concat(set.name, ": ", arguments.constants, " has no constants of ", set.device,
                          "; the usual ones are taken"));
    }
    const Calibration usual{.constants = set.start};
    results.push_back(replay_with(set, found == nullptr ? usual : found->calibration));
  }
  return results;
}

int keep(Console& console, const LedgerArguments& arguments) {
  if (arguments.sets.empty()) {
    fail_usage("ledger needs --sets DIR: a folder of measured sets, or files of them");
  }
  const MeasuredFiles files = load_measured(arguments.sets, arguments.runs, console);
  const std::vector<SetResult> results = results_of(files, arguments, console);
  console.artefact(ledger_page(results));
  if (!arguments.plot.empty()) write_file(arguments.plot, ledger_plot(results));
  console.print("errors over rows that were not fitted; rows of a set are drawn with --seed\n");
  console.print(summary_table(results, console.unicode()));
  console.print(memory_lines(results));
  ordered_json sets = ordered_json::array();
  for (const SetResult& result : results) {
    console.print(details(result));
    if (console.options().verbose > 0) console.print(all_rows(result, console.unicode()));
    sets.push_back(set_json(result));
  }
  for (const std::string& other : files.others)
    console.note(concat(other, " is no measured set of a known format"));
  console.result({{"sets", std::move(sets)}, {"not_measured_sets", files.others}});
  return 0;
}

}  // namespace

Action declare_ledger(CLI::App& app) {
  auto arguments = std::make_shared<LedgerArguments>();
  app.add_option("--sets", arguments->sets,
                 "Folder or files with measured sets; -o writes the page")
      ->type_name("DIR");
  declare_run_options(app, arguments->runs);
  app.add_option("--constants", arguments->constants,
                 "File with constants from `stagecraft calibrate`, instead of fitting them")
      ->type_name("FILE");
  app.add_flag(
         "--shipped", arguments->shipped,
         "Predict with the shipped constants, which plans use without measurements; fit nothing")
      ->excludes("--constants");
  app.add_option("--plot", arguments->plot, "Write a plot (SVG) of predicted over measured to FILE")
      ->type_name("FILE");
  return [arguments](Console& console) { return keep(console, *arguments); };
}

}  // namespace stagecraft
