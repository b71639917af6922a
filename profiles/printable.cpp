#include "profiles/printable.hpp"

#include <algorithm>

namespace stagecraft {

namespace {

/// How many bytes the UTF-8 character at the text's beginning has; 0 if there is none.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t count = first < 0x80                     ? 1
                            : first >= 0xC2 && first <= 0xDF ? 2
                            : first >= 0xE0 && first <= 0xEF ? 3
                            : first >= 0xF0 && first <= 0xF4 ? 4
                                                             : 0;
  if (count == 0 || text.size() < count) return 0;
  for (std::size_t i = 1; i < count; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  }
  return count;
}

unsigned code_point(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  unsigned code = character.size() == 1 ? first : first & (0xFFU >> (character.size() + 1));
  for (const char byte : character.substr(1)) {
    code = code << 6 | (static_cast<unsigned char>(byte) & 0x3FU);
  }
  return code;
}

bool is_control(unsigned code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

std::string hexadecimal(unsigned code, std::size_t digits) {
  std::string text(digits, '0');
  for (std::size_t i = digits; i-- > 0; code >>= 4) text[i] = "0123456789abcdef"[code & 15U];
  return text;
}

}  // namespace

std::string printable(std::string_view text, bool keeps_lines) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t count = character_bytes(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(1, count));
    const unsigned code =
        count == 0 ? static_cast<unsigned char>(text.front()) : code_point(character);
    const bool is_line = code == '\n' || code == '\t';
    if (count > 0 && (!is_control(code) || (is_line && keeps_lines))) {
      shown += character;
    } else if (is_line) {
      shown += code == '\n' ? "\\n" : "\\t";
    } else {
      shown += code < 0x100 ? "\\x" + hexadecimal(code, 2) : "\\u" + hexadecimal(code, 4);
    }
    text.remove_prefix(character.size());
  }
  return shown;
}

}  // namespace stagecraft
