#include "planner/interop/importers/shell/syntax/substitutions.hpp"

#include <array>

#include "planner/interop/importers/shell/syntax/characters.hpp"
#include "planner/interop/importers/shell/syntax/commands.hpp"
#include "planner/interop/importers/shell/syntax/words.hpp"

namespace stagecraft::shell {

namespace {

/// $X, $1, $@.
bool is_plain_parameter(char c) {
  if (c == '\0') return false;
  return is_name_start(c) || is_digit(c) ||
         std::string_view("@*#?$!-").find(c) != std::string::npos;
}

void parse_plain_parameter(Cursor& cursor, Word& word, bool quoted) {
  const std::size_t begin = cursor.position();
  cursor.skip();
  std::string name(1, cursor.take());
  while (is_name_start(name[0]) && is_name_character(cursor.peek())) name += cursor.take();
  word.parts.push_back({.kind = Part::Kind::parameter,
                        .quoted = quoted,
                        .text = cursor.piece_since(begin),
                        .name = std::move(name)});
}

/// $(…).
void parse_command_substitution(Cursor& cursor, Word& word, bool quoted) {
  const std::size_t begin = cursor.position();
  cursor.skip(2);
  auto body = parse_sequence(cursor, {")"});
  if (cursor.peek() != ')')
    cursor.fail_at(cursor.text().place(begin), "the parenthesis does not end");
  cursor.skip();
  word.parts.push_back({.kind = Part::Kind::substitution,
                        .quoted = quoted,
                        .text = cursor.piece_since(begin),
                        .body = std::move(body)});
}

/// $((…)); false for a subshell in a substitution, $( (…) ).
bool parse_arithmetic(Cursor& cursor, Word& word, bool quoted) {
  const std::size_t begin = cursor.position();
  const std::size_t outer = closing_parenthesis(cursor.text(), begin + 1);
  if (outer == std::string::npos || closing_parenthesis(cursor.text(), begin + 2) != outer - 1)
    return false;
  Part part{.kind = Part::Kind::arithmetic,
            .quoted = quoted,
            .text = cursor.text().piece(begin, outer + 1 - begin)};
  part.arguments.push_back(parse_inner_quoted(cursor, begin + 3, outer - 1));
  word.parts.push_back(std::move(part));
  cursor.move_to(outer + 1);
  return true;
}

// --- ${…} ---

std::string take_parameter_name(Cursor& cursor) {
  std::string name;
  if (is_name_start(cursor.peek())) {
    while (is_name_character(cursor.peek())) name += cursor.take();
  } else if (is_digit(cursor.peek())) {
    while (is_digit(cursor.peek())) name += cursor.take();
  } else if (!cursor.at_end()) {
    name = cursor.take();
  }
  return name;
}

/// The operation behind the name, and its arguments.
void parse_operation(Cursor& cursor, Part& part) {
  constexpr std::array operations{":-", ":=", ":+", ":?", "##", "%%", "//", "/#",
                                  "/%", "^^", ",,", "-",  "=",  "+",  "?",  "#",
                                  "%",  "/",  ":",  "^",  ",",  "@",  "*"};
  for (const std::string_view operation : operations) {
    if (!cursor.looking_at(operation)) continue;
    part.operation = operation;
    cursor.skip(operation.size());
    break;
  }
  if (part.operation.empty()) return;
  const bool has_two = part.operation.starts_with('/') || part.operation == ":";
  const std::string separator = part.operation == ":" ? ":" : "/";
  part.arguments.push_back(parse_argument(cursor, has_two ? "}" + separator : "}", part.quoted));
  if (has_two && cursor.looking_at(separator)) {
    cursor.skip();
    part.arguments.push_back(parse_argument(cursor, "}", part.quoted));
  }
}

Part parse_braced(Cursor& cursor, bool quoted) {
  const std::size_t begin = cursor.position();
  const Place start = cursor.here();
  cursor.skip(2);
  Part part{.kind = Part::Kind::parameter, .quoted = quoted};
  if (cursor.peek() == '#' && cursor.peek(1) != '}') {
    part.counts = true;
    cursor.skip();
  } else if (cursor.peek() == '!') {
    part.refers = true;
    cursor.skip();
  }
  part.name = take_parameter_name(cursor);
  if (cursor.peek() == '[') {
    cursor.skip();
    part.subscript = parse_argument(cursor, "]", quoted);
    if (cursor.peek() != ']') cursor.fail_at(start, "the subscript does not end");
    cursor.skip();
  }
  parse_operation(cursor, part);
  if (cursor.peek() != '}') cursor.fail_at(start, "the braces do not end");
  cursor.skip();
  part.text = cursor.piece_since(begin);
  return part;
}

}  // namespace

void parse_dollar(Cursor& cursor, Word& word, bool quoted) {
  const Cursor::Deeper deeper(cursor);
  if (cursor.looking_at("$((") && parse_arithmetic(cursor, word, quoted)) return;
  const char next = cursor.peek(1);
  if (next == '(') {
    parse_command_substitution(cursor, word, quoted);
  } else if (next == '{') {
    word.parts.push_back(parse_braced(cursor, quoted));
  } else if (next == '\'' && !quoted) {
    cursor.skip();
    parse_single_quoted(cursor, word);
  } else if (next == '"' && !quoted) {
    cursor.skip();
  } else if (is_plain_parameter(next)) {
    parse_plain_parameter(cursor, word, quoted);
  } else {
    add_literal(word, cursor.take_piece(1), quoted);
  }
}

void parse_backquoted(Cursor& cursor, Word& word, bool quoted) {
  const std::size_t begin = cursor.position();
  const Place start = cursor.here();
  cursor.skip();
  Text source;
  while (!cursor.at_end() && cursor.peek() != '`') {
    const char next = cursor.peek(1);
    if (cursor.peek() == '\\' && (next == '`' || next == '\\' || next == '$')) cursor.skip();
    source.append(cursor.take_piece(1));
  }
  if (cursor.at_end()) cursor.fail_at(start, "the command in backquotes does not end");
  cursor.skip();
  const Cursor::Deeper deeper(cursor);
  Cursor inner(source, cursor.syntax(), cursor.depth());
  word.parts.push_back({.kind = Part::Kind::substitution,
                        .quoted = quoted,
                        .text = cursor.piece_since(begin),
                        .body = parse_whole_script(inner)});
}

void parse_process(Cursor& cursor, Word& word) {
  const std::size_t begin = cursor.position();
  cursor.skip(2);
  parse_sequence(cursor, {")"});
  if (cursor.peek() != ')') cursor.fail_here("the parenthesis does not end");
  cursor.skip();
  word.parts.push_back({.kind = Part::Kind::process, .text = cursor.piece_since(begin)});
}

std::size_t closing_parenthesis(const Text& text, std::size_t at) {
  int open = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '(') ++open;
    if (text[at] == ')' && --open == 0) return at;
    if (text[at] == '\\') ++at;
  }
  return std::string::npos;
}

Word parse_inner_quoted(const Cursor& cursor, std::size_t begin, std::size_t end) {
  Cursor inner(cursor.text().piece(begin, end - begin), cursor.syntax(), cursor.depth() + 1);
  return parse_rest_as_quoted(inner);
}

}  // namespace stagecraft::shell
