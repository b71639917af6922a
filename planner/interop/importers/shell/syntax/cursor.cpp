#include "planner/interop/importers/shell/syntax/cursor.hpp"

#include <algorithm>

#include "planner/interop/importers/shell/syntax/characters.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft::shell {

namespace {

/// Deeper nesting is a slip, or an attack.
constexpr int deepest = 200;

}  // namespace

Cursor::Deeper::Deeper(Cursor& of) : cursor(of) {
  if (++cursor.depth_ > deepest) cursor.fail_here("the script is nested too deeply");
}

bool Cursor::looking_at(std::string_view characters, std::size_t ahead) const {
  const std::string_view all = text_.characters();
  return at_ + ahead <= all.size() && all.substr(at_ + ahead, characters.size()) == characters;
}

std::string Cursor::source_since(std::size_t begin) const {
  return trim(text_.characters().substr(begin, at_ - begin));
}

Text Cursor::take_piece(std::size_t count) {
  Text piece = text_.piece(at_, count);
  at_ += count;
  return piece;
}

void Cursor::fail_at(const Place& place, const std::string& message) const {
  throw Error(ErrorKind::input, message, SourcePlace{syntax_.file, place.line, place.column});
}

void Cursor::skip_blanks() {
  while (!at_end()) {
    if (is_blank(peek())) {
      ++at_;
    } else if (looking_at("\\\n")) {
      at_ += 2;
    } else if (looking_at("\\\r\n")) {
      at_ += 3;
    } else if (peek() == '#') {
      while (!at_end() && peek() != '\n') ++at_;
    } else {
      return;
    }
  }
}

void Cursor::skip_lines() {
  for (skip_blanks(); peek() == '\n' && !at_end(); skip_blanks()) end_line();
}

void Cursor::end_line() {
  ++at_;
  const std::vector<HereDocument> documents = std::move(awaited_);
  awaited_.clear();
  for (const HereDocument& document : documents) read_body(document);
}

void Cursor::read_body(const HereDocument& document) {
  Text body;
  while (!at_end()) {
    const std::size_t end = std::min(text_.characters().find('\n', at_), text_.size());
    std::size_t begin = at_;
    while (document.strips_tabs && begin < end && text_[begin] == '\t') ++begin;
    std::size_t until = end;
    if (until > begin && text_[until - 1] == '\r') --until;
    const std::string_view line = std::string_view(text_.characters()).substr(begin, until - begin);
    at_ = std::min(end + 1, text_.size());
    if (line == document.end) break;
    body.append(text_.piece(begin, at_ - begin));
  }
  Word word{.parts = {}, .place = body.place()};
  if (document.is_quoted) {
    word.parts.push_back({.quoted = true, .text = body});
  } else {
    word = parse_quoted(body, syntax_);
  }
  document.command->redirections[document.redirection].document = std::move(word);
}

}  // namespace stagecraft::shell
