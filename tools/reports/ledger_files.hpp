// Folders of measured sets, and the ledger as a page and a picture.

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

/// What a folder (searched with all below it, in the order of names) or a file holds.
struct MeasuredFiles {
  std::vector<MeasuredSet> sets;
  std::vector<std::string> others;  ///< JSON files, tables and logs of no known format
};

/// Throws Error (usage) where nothing is there, and (input) where nothing of it is a measured set,
/// with the known formats.
MeasuredFiles load_measured(const std::vector<std::string>& paths, const RunFileOptions& options,
                            Console& console);

/// --device: where files do not say it.
void declare_run_options(CLI::App& app, RunFileOptions& options);

/// A line of the summary: the set's name, claim, rows and fitted rows; of those held out mean,
/// median, p90, most and bias of the error, rank correlation, regret, interval and how many are
/// within. Empty where there is none, or no row.
std::vector<std::string> ledger_cells(const SetResult& result, bool unicode);

/// Every row of every set, in Markdown.
std::string ledger_page(const std::vector<SetResult>& results);

/// Predicted over measured on logarithmic axes, a colour for each set; fitted rows are hollow.
std::string ledger_plot(const std::vector<SetResult>& results);

}  // namespace stagecraft
