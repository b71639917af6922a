// The columns of a table of runs: what each is called, and what its cells set.

#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/calibration/measured_runs.hpp"
#include "planner/calibration/runs/cells.hpp"

namespace stagecraft {

/// A row as far as it is read.
struct RunDraft {
  MeasuredRun run;
  std::optional<Cell> device, devices, data, global_batch, trace;
  std::optional<int> blocks;
  std::int64_t sequence = 0;
  bool framework_said = false, messages_said = false, transfers_said = false, recipe_said = false;
};

struct RunColumn {
  std::string_view name;
  std::array<std::string_view, 3> others;  ///< other names
  /// Throws Error (input) at the cell.
  void (*read)(RunDraft& draft, const Cell& cell);
  bool has_unit = false;  ///< the header may give it
};

struct ColumnHeading {
  const RunColumn* column = nullptr;
  std::string unit;
};

/// "Iteration time (ms)" as the header of `iteration_time` in ms; without a column if there is
/// none.
ColumnHeading heading_of(std::string_view name);

/// A whole number from 1 to a million. Throws Error (input) at the cell.
int number_in(const Cell& cell);

/// What to call a mistyped column, or empty; and all names.
std::string closest_column(std::string_view name);
std::vector<std::string> column_names();

}  // namespace stagecraft
