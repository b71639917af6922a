// The output of `check`, as text and as JSON.

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
  std::vector<std::string> reasons;  ///< reasons against the plan; empty: the framework can run it
};

/// Prints the report, and the verification of the plan's bound if there is one, and ends the verb.
/// Returns the exit code: 0, or 6 if the program is not safe, the bound does not hold, or the
/// framework cannot run the plan.
int show_report(Console& console, const CheckReport& report,
                const std::optional<Verification>& bound = {},
                const std::optional<FrameworkVerdict>& framework = {});

}  // namespace stagecraft
