// Reserved words, which begin, part and end the compounds of a script ("if", "do", "}"). For the
// sources of this folder.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/interop/importers/shell/syntax/cursor.hpp"

namespace stagecraft::shell {

/// Words or characters that end a sequence of commands.
using Ends = std::vector<std::string_view>;

/// The reserved word or bare word that begins here, nothing of it read.
std::string bare_word(const Cursor& cursor);

bool is_at_reserved(const Cursor& cursor, std::string_view word);

/// Reads the word, on a later line perhaps. Throws Error (input) with `start` where another one
/// stands: the `compound` lacks it.
void take_reserved(Cursor& cursor, std::string_view word, const Place& start,
                   std::string_view compound);

bool is_at_any_of(const Cursor& cursor, const Ends& ends);

/// A reserved word that begins no command, as "done" without its loop.
bool is_at_stray_word(const Cursor& cursor);

}  // namespace stagecraft::shell
