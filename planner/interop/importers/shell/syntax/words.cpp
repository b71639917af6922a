#include "planner/interop/importers/shell/syntax/words.hpp"

#include "planner/interop/importers/shell/syntax/characters.hpp"
#include "planner/interop/importers/shell/syntax/substitutions.hpp"

namespace stagecraft::shell {

namespace {

/// What ends the text between quotes.
enum class QuotedUntil { double_quote, end_of_text };

void parse_quoted_parts(Cursor& cursor, Word& word, QuotedUntil until);

/// Characters that a word takes as they are.
void take_plain(Cursor& cursor, Word& word, std::string_view stops, bool quoted) {
  const std::size_t begin = cursor.position();
  while (!cursor.at_end() && stops.find(cursor.peek()) == std::string_view::npos) cursor.skip();
  if (cursor.position() > begin) add_literal(word, cursor.piece_since(begin), quoted);
}

/// One character, whatever it is, and those that follow up to `stops`.
void take_any_and_plain(Cursor& cursor, Word& word, std::string_view stops, bool quoted) {
  add_literal(word, cursor.take_piece(1), quoted);
  take_plain(cursor, word, stops, quoted);
}

void parse_escape(Cursor& cursor, Word& word, bool quoted) {
  if (cursor.peek(1) == '\n') {
    cursor.skip(2);
  } else if (cursor.peek(1) == '\r' && cursor.peek(2) == '\n') {
    cursor.skip(3);
  } else if (cursor.position() + 1 >= cursor.text().size()) {
    cursor.skip();
  } else if (quoted && std::string_view("$`\"\\").find(cursor.peek(1)) == std::string_view::npos) {
    add_literal(word, cursor.take_piece(2), quoted);
  } else {
    cursor.skip();
    add_literal(word, cursor.take_piece(1), true);
  }
}

void parse_double_quoted(Cursor& cursor, Word& word) {
  const Place start = cursor.here();
  cursor.skip();
  add_literal(word, Text("", cursor.here()), true);
  parse_quoted_parts(cursor, word, QuotedUntil::double_quote);
  if (cursor.at_end()) cursor.fail_at(start, "the quotation does not end");
  cursor.skip();
}

/// A quotation, an escape or what begins with "$"; false if it is another character.
bool parse_special_part(Cursor& cursor, Word& word, bool quoted) {
  const char c = cursor.peek();
  if (c == '\\') {
    parse_escape(cursor, word, quoted);
  } else if (c == '\'' && !quoted) {
    parse_single_quoted(cursor, word);
  } else if (c == '"' && !quoted) {
    parse_double_quoted(cursor, word);
  } else if (c == '`') {
    parse_backquoted(cursor, word, quoted);
  } else if (c == '$') {
    parse_dollar(cursor, word, quoted);
  } else {
    return false;
  }
  return true;
}

void parse_quoted_parts(Cursor& cursor, Word& word, QuotedUntil until) {
  const Cursor::Deeper deeper(cursor);
  const bool has_end = until == QuotedUntil::double_quote;
  const std::string_view stops = has_end ? "\\$`\"" : "\\$`";
  while (!cursor.at_end() && (!has_end || cursor.peek() != '"')) {
    if (!parse_special_part(cursor, word, true)) take_any_and_plain(cursor, word, stops, true);
  }
}

bool is_at_process(const Cursor& cursor) {
  return cursor.looking_at("<(") || cursor.looking_at(">(");
}

}  // namespace

bool is_at_word(const Cursor& cursor) {
  return !cursor.at_end() && cursor.peek() != '\n' &&
         (!is_operator(cursor.peek()) || is_at_process(cursor));
}

Word parse_word(Cursor& cursor, bool bars) {
  const Cursor::Deeper deeper(cursor);
  Word word{.parts = {}, .place = cursor.here()};
  while (!cursor.at_end()) {
    const char c = cursor.peek();
    if (is_blank(c) || c == '\n') break;
    if (is_at_process(cursor) && !bars) {
      parse_process(cursor, word);
    } else if (is_operator(c) && (!bars || c == ';' || c == '&')) {
      break;
    } else if (!parse_special_part(cursor, word, false)) {
      take_any_and_plain(cursor, word, " \t\r\n;&|<>()\\'\"$`=", false);
    }
    bars = bars || is_flag_with_bars(word, cursor.syntax());
  }
  return word;
}

Word parse_argument(Cursor& cursor, const std::string& ends, bool quoted) {
  const Cursor::Deeper deeper(cursor);
  Word word{.parts = {}, .place = cursor.here()};
  while (!cursor.at_end() && ends.find(cursor.peek()) == std::string::npos) {
    if (cursor.peek() == '"') {
      parse_double_quoted(cursor, word);
    } else if (!parse_special_part(cursor, word, quoted)) {
      take_any_and_plain(cursor, word, ends + "\\'\"$`", quoted);
    }
  }
  return word;
}

Word parse_rest_as_quoted(Cursor& cursor) {
  Word word{.parts = {}, .place = cursor.here()};
  parse_quoted_parts(cursor, word, QuotedUntil::end_of_text);
  return word;
}

Word take_operator(Cursor& cursor, std::size_t size) {
  Word word{.parts = {}, .place = cursor.here()};
  word.parts.push_back({.text = cursor.take_piece(size)});
  return word;
}

void parse_single_quoted(Cursor& cursor, Word& word) {
  const Place start = cursor.here();
  cursor.skip();
  const std::size_t end = cursor.text().characters().find('\'', cursor.position());
  if (end == std::string::npos) cursor.fail_at(start, "the quotation does not end");
  add_literal(word, cursor.take_piece(end - cursor.position()), true);
  cursor.skip();
}

void add_literal(Word& word, const Text& text, bool quoted) {
  const bool goes_on = !word.parts.empty() && word.parts.back().kind == Part::Kind::literal &&
                       word.parts.back().quoted == quoted;
  if (goes_on) {
    word.parts.back().text.append(text);
  } else {
    word.parts.push_back({.quoted = quoted, .text = text});
  }
}

bool is_flag_with_bars(const Word& word, const Syntax& syntax) {
  if (word.parts.size() != 1 || word.parts[0].kind != Part::Kind::literal) return false;
  std::string text = word.parts[0].text.characters();
  if (text.ends_with('=')) text.pop_back();
  return syntax.flags_with_bars.contains(text);
}

}  // namespace stagecraft::shell
