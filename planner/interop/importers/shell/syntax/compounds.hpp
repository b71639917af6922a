// Commands that begin with a reserved word or "((": branches, loops, choices and conditions. Each
// function reads one from that word on, its redirections included, and throws Error (input) where
// the word that ends it is missing. For the sources of this folder.

#pragma once

#include <memory>

#include "planner/interop/importers/shell/syntax/cursor.hpp"

namespace stagecraft::shell {

/// if … then … elif … else … fi.
std::shared_ptr<Command> parse_branch(Cursor& cursor);

/// while … do … done, until … do … done.
std::shared_ptr<Command> parse_loop(Cursor& cursor);

/// for X in … do … done, for ((…;…;…)) do … done; "select" as "for".
std::shared_ptr<Command> parse_for(Cursor& cursor);

/// case … in …) … esac.
std::shared_ptr<Command> parse_choice(Cursor& cursor);

/// [[ … ]].
std::shared_ptr<Command> parse_condition(Cursor& cursor);

/// ((…)).
std::shared_ptr<Command> parse_arithmetic_command(Cursor& cursor);

}  // namespace stagecraft::shell
