// What a check found, as people and programs read it.

#pragma once

#include "simulator/check.hpp"
#include "tools/console.hpp"

namespace stagecraft {

/// Prints the report and ends the verb. Returns the exit code: 0, or 6 if the program is not safe.
int show_report(Console& console, const CheckReport& report);

}  // namespace stagecraft
