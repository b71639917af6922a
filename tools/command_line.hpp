// From argv to a verb and back to an exit code.

#pragma once

namespace stagecraft {

/// Runs one verb; every error becomes one sentence on standard error and its exit code.
int run_command_line(int argc, const char* const* argv);

}  // namespace stagecraft
