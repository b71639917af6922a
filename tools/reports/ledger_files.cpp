#include "tools/reports/ledger_files.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "profiles/importers.hpp"
#include "simulator/views/kineto_run.hpp"
#include "tools/table.hpp"

namespace stagecraft {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 7> read_in_folders{".json", ".csv", ".tsv", ".log",
                                                          ".txt",  ".out", ".err"};

std::vector<fs::path> files_below(const std::string& path) {
  if (!fs::exists(path)) fail_usage("no file or folder is named \"", path, "\"");
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    const std::string kind = entry.path().extension().string();
    if (entry.is_regular_file() && std::ranges::count(read_in_folders, kind) > 0)
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> known_formats() {
  std::vector<std::string> lines;
  for (const SetFormat& format : set_formats)
    lines.push_back(concat(format.name, ": ", format.summary));
  for (const RunFormat& format : run_formats)
    lines.push_back(concat(format.name, ": ", format.summary));
  return lines;
}

/// Runs of text files, by format, until all are read.
using RunsByFormat = std::map<std::string_view, std::vector<MeasuredRun>>;

/// Whether the file is of a known format; then its sets or runs are kept.
bool take(const std::string& content, const std::string& file, const RunFileOptions& options,
          MeasuredFiles& result, RunsByFormat& runs) {
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && content[first] == '{') {
    if (is_kineto_run(content)) {
      throw Error(ErrorKind::input, "a run's trace needs its plan", SourcePlace{file, 0, 0},
                  {"give both: stagecraft calibrate PLAN TRACE, the file of one process or the "
                   "folder of all"});
    }
    if (looks_like_kineto(content)) {
      throw Error(
          ErrorKind::input, "a profiler's trace does not say what was trained",
          SourcePlace{file, 0, 0},
          {"name it in the column trace of a table of runs, or make a profile of its layers: "
           "stagecraft import kineto " +
           file});
    }
    std::vector<MeasuredSet> sets = read_measured(Json::parse(content, file));
    for (MeasuredSet& set : sets) result.sets.push_back(std::move(set));
    return !sets.empty();
  }
  const RunFormat* format = run_format_of(content);
  if (format == nullptr) return false;
  for (MeasuredRun& run : format->read(content, file, options))
    runs[format->name].push_back(std::move(run));
  return true;
}

}  // namespace

MeasuredFiles load_measured(const std::vector<std::string>& paths, const RunFileOptions& options,
                            Console& console) {
  MeasuredFiles result;
  RunsByFormat runs;
  for (const std::string& path : paths) {
    for (const fs::path& file : files_below(path)) {
      const std::string content = read_file(file);
      if (take(content, file.string(), options, result, runs)) {
        console.input(file.string(), content_hash(content));
      } else {
        result.others.push_back(file.string());
      }
    }
  }
  for (const auto& [format, of_format] : runs) {
    for (MeasuredSet& set : sets_of_runs(format, of_format)) result.sets.push_back(std::move(set));
  }
  if (result.sets.empty()) {
    fail_with_help(
        ErrorKind::input,
        concat("nothing of ", paths.front(), " is a measured set; expected a known format"),
        known_formats());
  }
  return result;
}

void declare_run_options(CLI::App& app, RunFileOptions& options) {
  app.add_option("--device", options.device,
                 "Device kind of logs and tables that do not name it, such as h100")
      ->type_name("KIND");
}

namespace {

std::string percent_of(double fraction) {
  return fmt::format("{:.2f} %", 100 * fraction);
}

void add_rows(std::string& page, const SetResult& result) {
  page += fmt::format("\n| row | | measured ({}) | predicted | error |\n|---|---|---:|---:|---:|\n",
                      result.unit);
  for (const LedgerRow& row : result.rows) {
    page +=
        fmt::format("| {} | {} | {} | {} | {:+.1f} % |\n", row.label, row.fitted ? "fitted" : "",
                    readable(row.measured, 5), readable(row.predicted, 5), 100 * row.error());
  }
}

void add_memory_rows(std::string& page, const SetResult& result) {
  if (result.memory.rows == 0) return;
  constexpr double gibi = 1024.0 * 1024 * 1024;
  page += "\n| row | measured (GiB) | predicted | error |\n|---|---:|---:|---:|\n";
  for (const LedgerRow& row : result.rows) {
    if (!row.memory || !row.predicted_memory) continue;
    const auto measured = static_cast<double>(*row.memory);
    const auto predicted = static_cast<double>(*row.predicted_memory);
    page += fmt::format("| {} | {:.2f} | {:.2f} | {:+.2f} % |\n", row.label, measured / gibi,
                        predicted / gibi, 100 * (predicted / measured - 1));
  }
}

void add_set(std::string& page, const SetResult& result) {
  page += fmt::format("\n## {}, {}\n\n{}\n\n", result.name, to_string(result.claim), result.source);
  page += fmt::format("{}, fitted on {}. ", number_of(std::ssize(result.rows), "row"),
                      result.fitted_on);
  for (const std::string& assumption : result.assumptions)
    page += fmt::format("Assumed: {}. ", assumption);
  page += "\n";
  if (!result.calibration.fitted.empty()) {
    page += "\n| constant | fitted | ± 95 % | before |\n|---|---:|---:|---:|\n";
    for (const FittedConstant& constant : result.calibration.fitted) {
      page += fmt::format("| {} | {} | {} | {} |\n", constant.name, readable(constant.value),
                          readable(constant.interval, 2), readable(constant.start));
    }
  }
  if (!result.calibration.corrections.empty()) {
    page += "\n| layers of shape | take so much of the predicted time |\n|---|---:|\n";
    for (const auto& [shape, factor] : result.calibration.corrections)
      page += fmt::format("| {} | {:.3f} |\n", shape, factor);
  }
  add_rows(page, result);
  add_memory_rows(page, result);
  for (const std::string& row : result.left_out) page += fmt::format("\nLeft out: {}\n", row);
}

}  // namespace

std::vector<std::string> ledger_cells(const SetResult& result, bool unicode) {
  const ErrorSummary& time = result.time;
  std::vector<std::string> cells{result.name, std::string(to_string(result.claim)),
                                 std::to_string(result.rows.size()),
                                 std::to_string(result.fitted_on)};
  constexpr std::size_t columns = 13;
  if (result.rows.empty()) {
    cells.resize(columns);
    return cells;
  }
  for (const double error : {time.mape, time.median, time.p90, time.max})
    cells.push_back(percent_of(error));
  cells.push_back(signed_percent(time.bias));
  cells.push_back(
      result.worst_rank_correlation == 0 ? "" : fmt::format("{:.3f}", result.rank_correlation));
  cells.push_back(result.problems > 0 ? percent_of(result.regret) : "");
  if (result.interval) {
    cells.push_back(fmt::format("{}{:.1f} %", unicode ? "±" : "+-", 100 * *result.interval));
    cells.push_back(fmt::format("{:.0f} %", 100 * result.covered));
  }
  cells.resize(columns);
  return cells;
}

std::string ledger_page(const std::vector<SetResult>& results) {
  std::string page =
      "# Predicted against measured\n\nErrors are over rows that were not fitted.\n\n"
      "| set | claim | rows | fitted | mean | median | p90 | max | bias | rank | regret "
      "| p10-p90 | within |\n"
      "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const SetResult& result : results)
    page += fmt::format("| {} |\n", fmt::join(ledger_cells(result, true), " | "));
  for (const SetResult& result : results) add_set(page, result);
  return page;
}

}  // namespace stagecraft
