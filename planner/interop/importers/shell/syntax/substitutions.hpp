// Substitutions in a word: parameters ($X, ${X:-…}), the output of commands ($(…), `…`), arithmetic
// ($((…))) and processes (<(…)). For the sources of this folder.

#pragma once

#include "planner/interop/importers/shell/syntax/cursor.hpp"

namespace stagecraft::shell {

/// Reads the substitution that begins with the "$" here; a "$" without one is an ordinary
/// character.
void parse_dollar(Cursor& cursor, Word& word, bool quoted);

/// `…`, whose commands are read as a script of their own.
void parse_backquoted(Cursor& cursor, Word& word, bool quoted);

/// <(…) or >(…).
void parse_process(Cursor& cursor, Word& word);

/// Where the parenthesis that is open at `at` ends, escapes minded; npos if it does not.
std::size_t closing_parenthesis(const Text& text, std::size_t at);

/// The characters [begin, end) as between double quotes; the cursor stays.
Word parse_inner_quoted(const Cursor& cursor, std::size_t begin, std::size_t end);

}  // namespace stagecraft::shell
