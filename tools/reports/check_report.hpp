// What a check found, as people and programs read it.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/analysis/certificate.hpp"
#include "planner/targets/targets.hpp"
#include "simulator/checks/check.hpp"
#include "tools/console.hpp"

namespace stagecraft {

/// Whether a framework runs a plan.
struct FrameworkVerdict {
  const Target* target = nullptr;
  std::vector<std::string> reasons;  ///< against it; empty: it runs
};

/// Prints the report, and what became of the plan's bound if that was verified, and ends the verb.
/// Returns the exit code: 0, or 6 if the program is not safe, the bound does not hold, or the
/// framework does not run the plan.
int show_report(Console& console, const CheckReport& report,
                const std::optional<Verification>& bound = {},
                const std::optional<FrameworkVerdict>& framework = {});

}  // namespace stagecraft
