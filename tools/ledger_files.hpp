// Folders of measured sets, and the ledger as a page and a picture.

#pragma once

#include <string>
#include <vector>

#include "planner/ledger/ledger.hpp"
#include "planner/ledger/measured_runs.hpp"
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

/// Every row of every set, in Markdown.
std::string ledger_page(const std::vector<SetResult>& results);

/// Predicted over measured on logarithmic axes, a colour for each set; fitted rows are hollow.
std::string ledger_plot(const std::vector<SetResult>& results);

}  // namespace stagecraft
