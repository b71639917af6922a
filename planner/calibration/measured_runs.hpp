// Runs as people have them: a table of configurations and times, and logs of training frameworks.
// Each file gives runs; the runs of all files of one format on one kind of device are a measured
// set, so a folder of logs is one.
//
// To add a format write `runs/NAME.cpp` with two functions and add a row.

#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/calibration/measured_sets.hpp"

namespace stagecraft {

/// A configuration, and how long its steps took.
struct MeasuredRun {
  std::string label;  ///< "llama3-8b, 16 devices: t2 p4 d2, batch 64"
  std::string model;  ///< runs of one are neighbours
  Recipe recipe;
  double seconds = 0;               ///< the median step
  double spread = 0;                ///< spread of the steps: (p90 - p10) / median
  int steps = 0;                    ///< measured after warming up; 0 where the file does not say
  std::optional<Bytes> memory;      ///< measured peak of the heaviest device that the file tells of
  bool memory_is_modelled = true;   ///< false: recipes do not tell what such a run keeps
  std::optional<int> memory_stage;  ///< that this device belongs to, where the file says it
  std::vector<std::string> assumptions;
  std::string left_out;  ///< why it cannot be predicted; empty if it can
};

/// Properties from the command line that a file does not give.
struct RunFileOptions {
  std::string device;  ///< kind; empty: files must say it
};

struct RunFormat {
  std::string_view name;
  bool (*looks_like)(std::string_view content);
  /// Throws Error (input) with the place of what cannot be understood, or cannot have run.
  std::vector<MeasuredRun> (*read)(std::string_view content, const std::string& file,
                                   const RunFileOptions& options);
  std::string_view summary;  ///< name of the format
};

bool is_run_table(std::string_view content);
std::vector<MeasuredRun> read_run_table(std::string_view content, const std::string& file,
                                        const RunFileOptions& options);
bool is_megatron_log(std::string_view content);
std::vector<MeasuredRun> read_megatron_log(std::string_view content, const std::string& file,
                                           const RunFileOptions& options);
bool is_torchtitan_log(std::string_view content);
std::vector<MeasuredRun> read_torchtitan_log(std::string_view content, const std::string& file,
                                             const RunFileOptions& options);
bool is_mlperf_log(std::string_view content);
std::vector<MeasuredRun> read_mlperf_log(std::string_view content, const std::string& file,
                                         const RunFileOptions& options);

inline constexpr std::array run_formats{
    RunFormat{
        "mlperf-log", is_mlperf_log, read_mlperf_log,
        "a log of MLPerf Training: lines that begin with \":::MLLOG\", and its configuration"},
    RunFormat{"megatron-log", is_megatron_log, read_megatron_log,
              "a log of Megatron-LM: its arguments, and lines with \"elapsed time per iteration\""},
    RunFormat{"torchtitan-log", is_torchtitan_log, read_torchtitan_log,
              "a log of torchtitan: its mesh and model, and lines \"step: … tps: …\""},
    RunFormat{"runs", is_run_table, read_run_table,
              "a table (CSV) whose header has model and iteration_time"},
};

/// The format of a text, or nullptr.
const RunFormat* run_format_of(std::string_view content);

/// A set for each kind of device among these runs of one format. A set's unknowns are the constants
/// that its rows depend on most, at most half as many as there are rows (but one).
std::vector<MeasuredSet> sets_of_runs(std::string_view format,
                                      const std::vector<MeasuredRun>& runs);

/// "16 devices: t2 p4 d2, batch 64", for labels.
std::string configuration_of(const Recipe& recipe);

/// Why the run's device cannot have run it, if it does not compute in its precision; else empty.
std::string reason_against_precision(const Recipe& recipe);

/// Median and spread of the steps after the first tenth, at least one of them if there are more.
/// Throws Error (input) at `file` if there is none.
void set_steps(MeasuredRun& run, std::vector<double> seconds, const std::string& file);

/// The number behind `label` in the text, commas between its digits passed over; nothing if there
/// is none.
std::optional<double> number_after(std::string_view text, std::string_view label);

/// The device the text or the options name. Throws Error (input) at `file` if neither does.
std::string device_of_run(const std::string& found, const RunFileOptions& options,
                          const std::string& file);

}  // namespace stagecraft
