// Loading of measured sets, and the ledger as a page and a plot.

#pragma once

#include <string>
#include <vector>

#include "planner/calibration/ledger.hpp"
#include "planner/calibration/measured_runs.hpp"
#include "tools/console.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// The contents of files and folders (searched recursively, in the order of names).
struct MeasuredFiles {
  std::vector<MeasuredSet> sets;
  std::vector<std::string> others;  ///< JSON files, tables and logs of unknown formats
};

/// Throws Error (usage) if a path does not exist, and Error (input), with the known formats, if
/// there is no measured set.
MeasuredFiles load_measured(const std::vector<std::string>& paths, const RunFileOptions& options,
                            Console& console);

/// Declares --device, for files that do not name the device kind.
void declare_run_options(CLI::App& app, RunFileOptions& options);

/// A line of the summary: the set's name, claim, rows and fitted rows; for held-out rows the mean,
/// median, p90, maximum and bias of the error, rank correlation, regret, interval and the fraction
/// within it. A cell is empty if it does not apply.
std::vector<std::string> ledger_cells(const SetResult& result, bool unicode);

/// Every row of every set, in Markdown.
std::string ledger_page(const std::vector<SetResult>& results);

/// A plot of predicted over measured times on logarithmic axes, with a colour for each set; fitted
/// rows are hollow.
std::string ledger_plot(const std::vector<SetResult>& results);

}  // namespace stagecraft
