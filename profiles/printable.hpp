// Text of others as it may be shown to people.

#pragma once

#include <string>
#include <string_view>

namespace stagecraft {

/// The text as it may be shown on a terminal: control characters of ASCII and of Unicode, those
/// that turn the direction of writing around, and bytes that are no UTF-8 appear as "\x1b" or
/// "\u202e". Line ends and tabs stay where `keeps_lines`.
std::string printable(std::string_view text, bool keeps_lines);

}  // namespace stagecraft
