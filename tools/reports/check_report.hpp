// What a check found, as people and programs read it.

#pragma once

#include <optional>

#include "planner/analysis/certificate.hpp"
#include "simulator/checks/check.hpp"
#include "tools/console.hpp"

namespace stagecraft {

/// Prints the report, and what became of the plan's bound if that was verified, and ends the verb.
/// Returns the exit code: 0, or 6 if the program is not safe or the bound does not hold.
int show_report(Console& console, const CheckReport& report,
                const std::optional<Verification>& bound = {});

}  // namespace stagecraft
