// Where the reading of a script stands: its characters, its lines, and the here-documents whose
// bodies follow on the next line. For the sources of this folder.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "planner/interop/importers/shell/syntax.hpp"

namespace stagecraft::shell {

/// A here-document whose body follows on the next line.
struct HereDocument {
  std::string end;  ///< the line behind the body
  bool strips_tabs = false;
  bool is_quoted = false;  ///< the body is taken as it is
  std::shared_ptr<Command> command;
  std::size_t redirection = 0;  ///< of the command: takes the body
};

/// The next character of a text, and how deep in compounds it stands. The syntax must outlive it.
class Cursor {
 public:
  Cursor(const Text& text, const Syntax& syntax, int depth = 0)
      : text_(text), syntax_(syntax), depth_(depth) {}

  const Text& text() const { return text_; }
  const Syntax& syntax() const { return syntax_; }
  int depth() const { return depth_; }
  std::size_t position() const { return at_; }

  bool at_end() const { return at_ >= text_.size(); }
  /// The zero character behind the end.
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  /// Whether these characters are the next ones, or those `ahead` of them.
  bool looking_at(std::string_view characters, std::size_t ahead = 0) const;
  Place here() const { return text_.place(at_); }
  Text piece_since(std::size_t begin) const { return text_.piece(begin, at_ - begin); }
  /// Without the blanks at its ends.
  std::string source_since(std::size_t begin) const;

  void skip(std::size_t count = 1) { at_ += count; }
  void move_to(std::size_t position) { at_ = position; }
  /// The next character, which must be there.
  char take() { return text_[at_++]; }
  /// The next characters with their places.
  Text take_piece(std::size_t count);
  /// Blanks, continued lines and comments, not the line's end.
  void skip_blanks();
  /// The ends of lines, too, and the bodies of here-documents behind them.
  void skip_lines();
  /// The body is read at the end of this line.
  void await(HereDocument document) { awaited_.push_back(std::move(document)); }

  /// Throw Error (input).
  [[noreturn]] void fail_at(const Place& place, const std::string& message) const;
  [[noreturn]] void fail_here(const std::string& message) const { fail_at(here(), message); }

  /// One more word or command in another, as long as it lives. Throws Error (input) where there are
  /// too many.
  struct Deeper {
    explicit Deeper(Cursor& of);
    ~Deeper() { --cursor.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    Cursor& cursor;
  };

 private:
  void end_line();
  void read_body(const HereDocument& document);

  const Text text_;
  const Syntax& syntax_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<HereDocument> awaited_;
};

}  // namespace stagecraft::shell
