#include "planner/interop/importers/shell/syntax/reserved_words.hpp"

#include <algorithm>
#include <array>

#include "planner/interop/importers/shell/syntax/characters.hpp"
#include "profiles/error.hpp"

namespace stagecraft::shell {

std::string bare_word(const Cursor& cursor) {
  const Text& text = cursor.text();
  std::size_t end = cursor.position();
  while (end < text.size() && !is_blank(text[end]) && text[end] != '\n' && !is_operator(text[end]))
    ++end;
  return text.characters().substr(cursor.position(), end - cursor.position());
}

bool is_at_reserved(const Cursor& cursor, std::string_view word) {
  return bare_word(cursor) == word;
}

void take_reserved(Cursor& cursor, std::string_view word, const Place& start,
                   std::string_view compound) {
  cursor.skip_lines();
  if (!is_at_reserved(cursor, word))
    cursor.fail_at(start, concat("the \"", compound, "\" has no \"", word, "\""));
  cursor.skip(word.size());
}

bool is_at_any_of(const Cursor& cursor, const Ends& ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) {
    const bool is_word = is_name_start(end[0]) || end == "}";
    return is_word ? is_at_reserved(cursor, end) : cursor.looking_at(end);
  });
}

bool is_at_stray_word(const Cursor& cursor) {
  constexpr std::array words{"then", "else", "elif", "fi", "do", "done", "esac", "}"};
  return std::ranges::count(words, bare_word(cursor)) > 0;
}

}  // namespace stagecraft::shell
