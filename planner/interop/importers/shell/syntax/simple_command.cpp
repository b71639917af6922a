#include "planner/interop/importers/shell/syntax/simple_command.hpp"

#include <algorithm>
#include <array>

#include "planner/interop/importers/shell/syntax/characters.hpp"
#include "planner/interop/importers/shell/syntax/commands.hpp"
#include "planner/interop/importers/shell/syntax/redirections.hpp"
#include "planner/interop/importers/shell/syntax/words.hpp"
#include "profiles/error.hpp"

namespace stagecraft::shell {

namespace {

/// The length of NAME in NAME or NAME[…] if "=" or "+=" follows; 0 otherwise.
std::size_t assigned_name_ahead(const Cursor& cursor) {
  if (!is_name_start(cursor.peek())) return 0;
  const Text& text = cursor.text();
  std::size_t end = cursor.position();
  while (end < text.size() && is_name_character(text[end])) ++end;
  const std::size_t name = end - cursor.position();
  if (end < text.size() && text[end] == '[') {
    end = text.characters().find(']', end);
    if (end == std::string::npos) return 0;
    ++end;
  }
  const bool assigns =
      end < text.size() &&
      (text[end] == '=' || (text[end] == '+' && end + 1 < text.size() && text[end + 1] == '='));
  return assigns ? name : 0;
}

/// An element of NAME=(…), perhaps with its key.
Element parse_element(Cursor& cursor) {
  Element element;
  if (cursor.peek() == '[') {
    const std::size_t before = cursor.position();
    cursor.skip();
    Word key = parse_argument(cursor, "]", false);
    if (cursor.looking_at("]=")) {
      cursor.skip(2);
      element.key = std::move(key);
    } else {
      cursor.move_to(before);
    }
  }
  const std::size_t before = cursor.position();
  element.value = parse_word(cursor);
  // A stray operator, as in a placeholder such as <path>, is a character here.
  if (cursor.position() == before) element.value = take_operator(cursor, 1);
  return element;
}

std::vector<Element> parse_elements(Cursor& cursor) {
  std::vector<Element> elements;
  const Place start = cursor.here();
  cursor.skip();
  for (cursor.skip_lines(); !cursor.at_end() && cursor.peek() != ')'; cursor.skip_lines())
    elements.push_back(parse_element(cursor));
  if (cursor.at_end()) cursor.fail_at(start, "the array does not end");
  cursor.skip();
  return elements;
}

Assignment parse_assignment(Cursor& cursor) {
  Assignment assignment{.place = cursor.here()};
  assignment.name =
      cursor.text().characters().substr(cursor.position(), assigned_name_ahead(cursor));
  cursor.skip(assignment.name.size());
  if (cursor.peek() == '[') {
    cursor.skip();
    assignment.subscript = parse_argument(cursor, "]", false);
    if (cursor.at_end()) cursor.fail_at(assignment.place, "the subscript does not end");
    cursor.skip();
  }
  if (cursor.peek() == '+') {
    assignment.appends = true;
    cursor.skip();
  }
  cursor.skip();
  assignment.is_array = cursor.peek() == '(';
  if (assignment.is_array) {
    assignment.elements = parse_elements(cursor);
  } else {
    assignment.value = parse_word(cursor);
  }
  return assignment;
}

/// Whether words behind this one may be assignments.
bool declares_variables(const Word& word) {
  constexpr std::array names{"export", "declare", "local", "readonly", "typeset"};
  return word.parts.size() == 1 && std::ranges::count(names, word.parts[0].text.characters()) > 0;
}

}  // namespace

std::shared_ptr<Command> parse_simple_command(Cursor& cursor) {
  auto command = begin_command(cursor, Command::Kind::simple);
  std::vector<Word>& words = command->words;
  bool declares = false;
  for (cursor.skip_blanks(); !cursor.at_end(); cursor.skip_blanks()) {
    if (parse_redirection(cursor, command)) continue;
    if (!is_at_word(cursor)) break;
    if ((words.empty() || declares) && assigned_name_ahead(cursor) > 0) {
      command->assignments.push_back(parse_assignment(cursor));
      continue;
    }
    const bool bars = !words.empty() && is_flag_with_bars(words.back(), cursor.syntax());
    words.push_back(parse_word(cursor, bars));
    if (words.size() == 1) declares = declares_variables(words[0]);
  }
  const bool is_empty =
      words.empty() && command->assignments.empty() && command->redirections.empty();
  if (is_empty) {
    cursor.fail_here(cursor.at_end()
                         ? std::string("the script ends in the middle of a command")
                         : concat("unexpected \"", std::string(1, cursor.peek()), "\""));
  }
  return command;
}

}  // namespace stagecraft::shell
