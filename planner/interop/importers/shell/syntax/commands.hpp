// Commands of a script, from whole lists of them ("a; b", "a && b", "a | b") down to a single one
// of whatever kind. For the sources of this folder.

#pragma once

#include <memory>

#include "planner/interop/importers/shell/syntax/cursor.hpp"
#include "planner/interop/importers/shell/syntax/reserved_words.hpp"

namespace stagecraft::shell {

/// All that is left. Throws Error (input) for what belongs to no command.
std::shared_ptr<const Command> parse_whole_script(Cursor& cursor);

/// Commands until one of these words or characters, which stays.
std::shared_ptr<Command> parse_sequence(Cursor& cursor, const Ends& ends);

/// One command of this kind that begins here, nothing of it read.
std::shared_ptr<Command> begin_command(const Cursor& cursor, Command::Kind kind);

}  // namespace stagecraft::shell
