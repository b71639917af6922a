// From argv to a verb and back to an exit code.

#pragma once

#include <functional>

#include "tools/command.hpp"

namespace stagecraft {

/// Runs one verb; every error becomes one sentence on standard error and its exit code.
int run_command_line(int argc, const char* const* argv);

/// Calls `look` for each verb, with all its options declared on the app.
void for_each_verb(const std::function<void(const Command&, const CLI::App&)>& look);

}  // namespace stagecraft
