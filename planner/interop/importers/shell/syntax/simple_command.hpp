// A simple command: assignments, words and redirections. For the sources of this folder.

#pragma once

#include <memory>

#include "planner/interop/importers/shell/syntax/cursor.hpp"

namespace stagecraft::shell {

/// Until an operator or the end of the line. Throws Error (input) where none begins.
std::shared_ptr<Command> parse_simple_command(Cursor& cursor);

}  // namespace stagecraft::shell
