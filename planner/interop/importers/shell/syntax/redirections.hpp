// Where a command reads from and writes to: "> FILE", "2>&1", "<<END". For the sources of this
// folder.

#pragma once

#include <memory>

#include "planner/interop/importers/shell/syntax/cursor.hpp"

namespace stagecraft::shell {

/// One redirection of the command; false if none begins here. The body of a here-document is read
/// later, at the end of the line.
bool parse_redirection(Cursor& cursor, const std::shared_ptr<Command>& command);

/// As many as there are.
void parse_redirections(Cursor& cursor, const std::shared_ptr<Command>& command);

}  // namespace stagecraft::shell
