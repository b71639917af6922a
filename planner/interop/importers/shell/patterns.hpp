// Patterns of the shell (POSIX, "Pattern Matching Notation"): `*`, `?`, `[…]`, and a backslash in
// front of a character that stands for itself.

#pragma once

#include <string>
#include <string_view>

namespace stagecraft::shell {

/// Whether the whole text matches.
bool matches(std::string_view pattern, std::string_view text);

/// The text as a pattern that only it matches.
std::string escaped(std::string_view text);

/// Without its shortest or longest beginning or end that matches: ${X#…}, ${X##…}, ${X%…}, ${X%%…}.
std::string without_beginning(std::string_view text, std::string_view pattern, bool longest);
std::string without_end(std::string_view text, std::string_view pattern, bool longest);

/// The first longest match, or each, replaced: ${X/…/…}, ${X//…/…}.
std::string replaced(std::string_view text, std::string_view pattern, std::string_view by,
                     bool all);

}  // namespace stagecraft::shell
