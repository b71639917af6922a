#include "planner/interop/importers/shell/syntax.hpp"

#include <algorithm>

#include "planner/interop/importers/shell/syntax/characters.hpp"
#include "planner/interop/importers/shell/syntax/commands.hpp"
#include "planner/interop/importers/shell/syntax/cursor.hpp"
#include "planner/interop/importers/shell/syntax/words.hpp"

namespace stagecraft::shell {

std::shared_ptr<const Command> parse_script(const Text& text, const Syntax& syntax) {
  Cursor cursor(text, syntax);
  return parse_whole_script(cursor);
}

Word parse_quoted(const Text& text, const Syntax& syntax) {
  Cursor cursor(text, syntax);
  return parse_rest_as_quoted(cursor);
}

bool is_name(std::string_view text) {
  return !text.empty() && is_name_start(text[0]) &&
         std::all_of(text.begin(), text.end(), is_name_character);
}

}  // namespace stagecraft::shell
