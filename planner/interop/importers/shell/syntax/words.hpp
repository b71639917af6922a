// Words of a script: their quotations and escapes, and the characters that stand for themselves.
// What begins with "$" or a backquote is in substitutions.hpp. For the sources of this folder.

#pragma once

#include <string>

#include "planner/interop/importers/shell/syntax/cursor.hpp"

namespace stagecraft::shell {

/// Whether a word begins here, and not an operator or the end of the line.
bool is_at_word(const Cursor& cursor);

/// Until a blank or an operator. With `bars`, operators but the separators of commands are
/// characters.
Word parse_word(Cursor& cursor, bool bars = false);

/// Until one of these characters, which stays: `}` of a parameter's argument.
Word parse_argument(Cursor& cursor, const std::string& ends, bool quoted);

/// All that is left, as between double quotes.
Word parse_rest_as_quoted(Cursor& cursor);

/// An operator of so many characters as a word.
Word take_operator(Cursor& cursor, std::size_t size);

/// '…', with the cursor before it. Throws Error (input) where it does not end.
void parse_single_quoted(Cursor& cursor, Word& word);

/// Characters that stand for themselves; a literal before them goes on.
void add_literal(Word& word, const Text& text, bool quoted);

/// Whether the word is a flag whose value may have bars (`Syntax::flags_with_bars`).
bool is_flag_with_bars(const Word& word, const Syntax& syntax);

}  // namespace stagecraft::shell
