#include "planner/interop/importers/shell/syntax.hpp"

#include <algorithm>
#include <array>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft::shell {

namespace {

/// Deeper nesting is a slip, or an attack.
constexpr int deepest = 200;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_character(char c) {
  return is_name_start(c) || is_digit(c);
}
/// Ends a word that has no quotes.
bool is_operator(char c) {
  return c == ';' || c == '&' || c == '|' || c == '<' || c == '>' || c == '(' || c == ')';
}

/// A here-document whose body follows on the next line.
struct Waiting {
  std::string end;
  bool strips_tabs = false;
  bool is_quoted = false;
  std::shared_ptr<Command> command;
  std::size_t redirection = 0;
};

class Parser {
 public:
  Parser(const Text& text, const Syntax& syntax) : text_(text), syntax_(syntax) {}

  std::shared_ptr<const Command> script() {
    auto command = sequence({});
    if (!at_end()) {
      const bool is_word = is_name_start(peek());
      fail_here(is_word ? concat("\"", reserved_word(), "\" without what it belongs to")
                        : concat("unexpected \"", std::string(1, peek()), "\""));
    }
    return command;
  }

  Word quoted() {
    Word word{.parts = {}, .place = here()};
    quoted_parts(word, '\0');
    return word;
  }

 private:
  // --- Characters ---

  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool looking_at(std::string_view word) const {
    return std::string_view(text_.characters()).substr(at_, word.size()) == word;
  }
  Place here() const { return text_.place(at_); }
  [[noreturn]] void fail_at(const Place& place, const std::string& message) const {
    throw Error(ErrorKind::input, message, SourcePlace{syntax_.file, place.line, place.column});
  }
  [[noreturn]] void fail_here(const std::string& message) const { fail_at(here(), message); }

  /// Blanks, continued lines and comments, not the line's end.
  void skip_blanks() {
    while (!at_end()) {
      if (is_blank(peek())) {
        ++at_;
      } else if (peek() == '\\' && peek(1) == '\n') {
        at_ += 2;
      } else if (peek() == '\\' && peek(1) == '\r' && peek(2) == '\n') {
        at_ += 3;
      } else if (peek() == '#') {
        while (!at_end() && peek() != '\n') ++at_;
      } else {
        return;
      }
    }
  }

  void skip_lines() {
    for (skip_blanks(); peek() == '\n' && !at_end(); skip_blanks()) end_line();
  }

  /// Behind it are the bodies of here-documents.
  void end_line() {
    ++at_;
    const std::vector<Waiting> waiting = std::move(waiting_);
    waiting_.clear();
    for (const Waiting& document : waiting) read_document(document);
  }

  void read_document(const Waiting& waiting) {
    Text body;
    while (!at_end()) {
      const std::size_t end = std::min(text_.characters().find('\n', at_), text_.size());
      std::size_t begin = at_;
      while (waiting.strips_tabs && begin < end && text_[begin] == '\t') ++begin;
      std::size_t until = end;
      if (until > begin && text_[until - 1] == '\r') --until;
      const std::string_view line =
          std::string_view(text_.characters()).substr(begin, until - begin);
      at_ = std::min(end + 1, text_.size());
      if (line == waiting.end) break;
      body.append(text_.piece(begin, at_ - begin));
    }
    Word word{.parts = {}, .place = body.place()};
    if (waiting.is_quoted) {
      word.parts.push_back({.quoted = true, .text = body});
    } else {
      word = parse_quoted(body, syntax_);
    }
    waiting.command->redirections[waiting.redirection].document = std::move(word);
  }

  // --- Words ---

  struct Deeper {
    explicit Deeper(Parser& of) : parser(of) {
      if (++parser.depth_ > deepest) parser.fail_here("the script is nested too deeply");
    }
    ~Deeper() { --parser.depth_; }
    Parser& parser;
  };

  void add_literal(Word& word, const Text& text, bool quoted) {
    if (!word.parts.empty() && word.parts.back().kind == Part::Kind::literal &&
        word.parts.back().quoted == quoted) {
      word.parts.back().text.append(text);
    } else {
      word.parts.push_back({.quoted = quoted, .text = text});
    }
  }

  /// Characters that a word takes as they are.
  void plain_run(Word& word, std::string_view stops, bool quoted) {
    const std::size_t begin = at_;
    while (!at_end() && stops.find(peek()) == std::string_view::npos) ++at_;
    if (at_ > begin) add_literal(word, text_.piece(begin, at_ - begin), quoted);
  }

  static bool has_bars_before(const Word& word, const std::set<std::string>& flags) {
    if (word.parts.size() != 1 || word.parts[0].kind != Part::Kind::literal) return false;
    std::string text = word.parts[0].text.characters();
    if (text.ends_with('=')) text.pop_back();
    return flags.contains(text);
  }

  /// Whether a word begins here, and not an operator or the end of the line.
  bool at_word() const {
    return !at_end() && peek() != '\n' && (!is_operator(peek()) || at_process());
  }
  bool at_process() const { return (peek() == '<' || peek() == '>') && peek(1) == '('; }

  /// Until a blank or an operator. With `bars`, operators but the separators of commands are
  /// characters; with `ends`, these characters end it too (`}` of a parameter's argument).
  Word word(bool bars = false) {
    const Deeper deeper(*this);
    Word result{.parts = {}, .place = here()};
    while (!at_end()) {
      const char c = peek();
      if (is_blank(c) || c == '\n') break;
      if (at_process() && !bars) {
        process(result);
      } else if (is_operator(c) && (!bars || c == ';' || c == '&')) {
        break;
      } else if (!any_part(result, false)) {
        add_literal(result, text_.piece(at_, 1), false);
        ++at_;
        plain_run(result, " \t\r\n;&|<>()\\'\"$`=", false);
      }
      bars = bars || has_bars_before(result, syntax_.flags_with_bars);
    }
    return result;
  }

  /// A quotation, an escape or what begins with "$"; false if it is another character.
  bool any_part(Word& word, bool quoted) {
    const char c = peek();
    if (c == '\\') {
      escape(word, quoted);
    } else if (c == '\'' && !quoted) {
      single_quoted(word);
    } else if (c == '"' && !quoted) {
      double_quoted(word);
    } else if (c == '`') {
      backquoted(word, quoted);
    } else if (c == '$') {
      dollar(word, quoted);
    } else {
      return false;
    }
    return true;
  }

  void escape(Word& word, bool quoted) {
    if (peek(1) == '\n') {
      at_ += 2;
    } else if (peek(1) == '\r' && peek(2) == '\n') {
      at_ += 3;
    } else if (at_ + 1 >= text_.size()) {
      ++at_;
    } else if (quoted && std::string_view("$`\"\\").find(peek(1)) == std::string_view::npos) {
      add_literal(word, text_.piece(at_, 2), quoted);
      at_ += 2;
    } else {
      add_literal(word, text_.piece(at_ + 1, 1), true);
      at_ += 2;
    }
  }

  void single_quoted(Word& word) {
    const Place start = here();
    const std::size_t end = text_.characters().find('\'', at_ + 1);
    if (end == std::string::npos) fail_at(start, "the quotation does not end");
    add_literal(word, text_.piece(at_ + 1, end - at_ - 1), true);
    at_ = end + 1;
  }

  void double_quoted(Word& word) {
    const Place start = here();
    ++at_;
    add_literal(word, Text("", here()), true);
    quoted_parts(word, '"');
    if (at_end()) fail_at(start, "the quotation does not end");
    ++at_;
  }

  void quoted_parts(Word& word, char end) {
    const Deeper deeper(*this);
    const std::string stops = end == '\0' ? std::string("\\$`") : std::string("\\$`\"");
    while (!at_end() && (end == '\0' || peek() != end)) {
      if (any_part(word, true)) continue;
      add_literal(word, text_.piece(at_, 1), true);
      ++at_;
      plain_run(word, stops, true);
    }
  }

  void process(Word& word) {
    const std::size_t begin = at_;
    at_ += 2;
    sequence({")"});
    if (peek() != ')') fail_here("the parenthesis does not end");
    ++at_;
    word.parts.push_back({.kind = Part::Kind::process, .text = text_.piece(begin, at_ - begin)});
  }

  void backquoted(Word& word, bool quoted) {
    const std::size_t begin = at_++;
    Text source;
    while (!at_end() && peek() != '`') {
      const bool escapes = peek() == '\\' && (peek(1) == '`' || peek(1) == '\\' || peek(1) == '$');
      if (escapes) ++at_;
      source.append(text_.piece(at_, 1));
      ++at_;
    }
    if (at_end()) fail_at(text_.place(begin), "the command in backquotes does not end");
    ++at_;
    const Deeper deeper(*this);
    Parser inner(source, syntax_);
    inner.depth_ = depth_;
    word.parts.push_back({.kind = Part::Kind::substitution,
                          .quoted = quoted,
                          .text = text_.piece(begin, at_ - begin),
                          .body = inner.script()});
  }

  void dollar(Word& word, bool quoted) {
    const Deeper deeper(*this);
    const std::size_t begin = at_;
    if (looking_at("$((") && arithmetic(word, quoted)) return;
    if (peek(1) == '(') {
      at_ += 2;
      auto body = sequence({")"});
      if (peek() != ')') fail_at(text_.place(begin), "the parenthesis does not end");
      ++at_;
      word.parts.push_back({.kind = Part::Kind::substitution,
                            .quoted = quoted,
                            .text = text_.piece(begin, at_ - begin),
                            .body = std::move(body)});
    } else if (peek(1) == '{') {
      at_ += 2;
      word.parts.push_back(braced(begin, quoted));
    } else if (peek(1) == '\'' && !quoted) {
      ++at_;
      single_quoted(word);
    } else if (peek(1) == '"' && !quoted) {
      ++at_;
    } else if (is_name_start(peek(1)) || is_digit(peek(1)) ||
               (peek(1) != '\0' &&
                std::string_view("@*#?$!-").find(peek(1)) != std::string::npos)) {
      ++at_;
      std::string name(1, peek());
      ++at_;
      while (is_name_start(name[0]) && is_name_character(peek())) name += text_[at_++];
      word.parts.push_back({.kind = Part::Kind::parameter,
                            .quoted = quoted,
                            .text = text_.piece(begin, at_ - begin),
                            .name = std::move(name)});
    } else {
      add_literal(word, text_.piece(at_, 1), quoted);
      ++at_;
    }
  }

  /// Where the parenthesis that is open at `at` ends, quotes minded; npos if it does not.
  std::size_t closing(std::size_t at) const {
    int open = 0;
    for (; at < text_.size(); ++at) {
      if (text_[at] == '(') ++open;
      if (text_[at] == ')' && --open == 0) return at;
      if (text_[at] == '\\') ++at;
    }
    return std::string::npos;
  }

  /// $((…)); false for a subshell in a substitution, $( (…) ).
  bool arithmetic(Word& word, bool quoted) {
    const std::size_t begin = at_;
    const std::size_t outer = closing(at_ + 1);
    if (outer == std::string::npos || closing(at_ + 2) != outer - 1) return false;
    Part part{.kind = Part::Kind::arithmetic,
              .quoted = quoted,
              .text = text_.piece(begin, outer + 1 - begin)};
    part.arguments.push_back(inner_quoted(begin + 3, outer - 1));
    word.parts.push_back(std::move(part));
    at_ = outer + 1;
    return true;
  }

  Word inner_quoted(std::size_t begin, std::size_t end) {
    Parser inner(text_.piece(begin, end - begin), syntax_);
    inner.depth_ = depth_ + 1;
    return inner.quoted();
  }

  // --- ${…} ---

  Part braced(std::size_t begin, bool quoted) {
    Part part{.kind = Part::Kind::parameter, .quoted = quoted};
    if (peek() == '#' && peek(1) != '}') {
      part.counts = true;
      ++at_;
    } else if (peek() == '!') {
      part.refers = true;
      ++at_;
    }
    if (is_name_start(peek())) {
      while (is_name_character(peek())) part.name += text_[at_++];
    } else if (is_digit(peek())) {
      while (is_digit(peek())) part.name += text_[at_++];
    } else if (!at_end()) {
      part.name = text_[at_++];
    }
    if (peek() == '[') {
      ++at_;
      part.subscript = argument("]", quoted);
      if (peek() != ']') fail_at(text_.place(begin), "the subscript does not end");
      ++at_;
    }
    read_operation(part, quoted);
    if (peek() != '}') fail_at(text_.place(begin), "the braces do not end");
    ++at_;
    part.text = text_.piece(begin, at_ - begin);
    return part;
  }

  void read_operation(Part& part, bool quoted) {
    constexpr std::array operations{":-", ":=", ":+", ":?", "##", "%%", "//", "/#",
                                    "/%", "^^", ",,", "-",  "=",  "+",  "?",  "#",
                                    "%",  "/",  ":",  "^",  ",",  "@",  "*"};
    for (const std::string_view operation : operations) {
      if (!looking_at(operation)) continue;
      part.operation = operation;
      at_ += operation.size();
      break;
    }
    if (part.operation.empty()) return;
    const bool has_two = part.operation.starts_with('/') || part.operation == ":";
    const std::string separator = part.operation == ":" ? ":" : "/";
    part.arguments.push_back(argument(has_two ? "}" + separator : "}", quoted));
    if (has_two && looking_at(separator)) {
      ++at_;
      part.arguments.push_back(argument("}", quoted));
    }
  }

  /// Until one of these characters.
  Word argument(const std::string& ends, bool quoted) {
    const Deeper deeper(*this);
    Word result{.parts = {}, .place = here()};
    while (!at_end() && ends.find(peek()) == std::string::npos) {
      if (peek() == '"') {
        double_quoted(result);
      } else if (!any_part(result, quoted)) {
        add_literal(result, text_.piece(at_, 1), quoted);
        ++at_;
        plain_run(result, ends + "\\'\"$`", quoted);
      }
    }
    return result;
  }

  // --- Commands ---

  /// The reserved word or bare word that begins here, nothing of it read.
  std::string reserved_word() const {
    std::size_t end = at_;
    while (end < text_.size() && !is_blank(text_[end]) && text_[end] != '\n' &&
           !is_operator(text_[end])) {
      ++end;
    }
    return text_.characters().substr(at_, end - at_);
  }
  bool at_reserved(std::string_view word) const { return reserved_word() == word; }
  void take_reserved(std::string_view word, const Place& start, std::string_view of) {
    skip_lines();
    if (!at_reserved(word)) {
      fail_at(start, concat("the \"", of, "\" has no \"", word, "\""));
    }
    at_ += word.size();
  }

  using Ends = std::vector<std::string_view>;

  bool ends(const Ends& words) const {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
      return is_name_start(word[0]) || word == "}" ? at_reserved(word) : looking_at(word);
    });
  }

  std::shared_ptr<Command> begin(Command::Kind kind) const {
    auto command = std::make_shared<Command>();
    command->kind = kind;
    command->place = here();
    return command;
  }

  /// Commands until one of these words or characters, which stays.
  std::shared_ptr<Command> sequence(const Ends& words) {
    const Deeper deeper(*this);
    auto result = begin(Command::Kind::sequence);
    for (skip_lines(); !at_end() && !ends(words); skip_lines()) {
      if (peek() == ')' || is_stray_word()) break;
      if (peek() == ';' || peek() == '&') {
        if (looking_at(";;") || looking_at(";&")) break;
        ++at_;
        continue;
      }
      result->commands.push_back(and_or());
    }
    return result;
  }

  bool is_stray_word() const {
    constexpr std::array words{"then", "else", "elif", "fi", "do", "done", "esac", "}"};
    return std::ranges::count(words, reserved_word()) > 0;
  }

  std::shared_ptr<Command> and_or() {
    auto result = begin(Command::Kind::and_or);
    const std::size_t first = at_;
    result->commands.push_back(pipeline());
    result->source = source_since(first);
    for (skip_blanks(); looking_at("&&") || looking_at("||"); skip_blanks()) {
      result->operators.emplace_back(looking_at("&&") ? "&&" : "||");
      at_ += 2;
      skip_lines();
      if (at_end()) break;
      result->commands.push_back(pipeline());
    }
    return result->commands.size() == 1 ? std::const_pointer_cast<Command>(result->commands[0])
                                        : result;
  }

  std::shared_ptr<Command> pipeline() {
    auto result = begin(Command::Kind::pipeline);
    for (skip_blanks(); at_reserved("!") || at_reserved("time"); skip_blanks()) {
      result->is_negated = result->is_negated != at_reserved("!");
      at_ += reserved_word().size();
    }
    result->commands.push_back(command());
    for (skip_blanks(); peek() == '|' && peek(1) != '|'; skip_blanks()) {
      at_ += peek(1) == '&' ? 2 : 1;
      skip_lines();
      if (at_end()) break;
      result->commands.push_back(command());
    }
    const bool is_plain = result->commands.size() == 1 && !result->is_negated;
    return is_plain ? std::const_pointer_cast<Command>(result->commands[0]) : result;
  }

  std::shared_ptr<Command> command() {
    const Deeper deeper(*this);
    skip_blanks();
    const std::string word = reserved_word();
    if (looking_at("((")) {
      const std::size_t outer = closing(at_);
      if (outer != std::string::npos && closing(at_ + 1) == outer - 1) return arithmetic_command();
    }
    if (peek() == '(') return compound(Command::Kind::subshell, "(", ")");
    if (word == "{") return compound(Command::Kind::group, "{", "}");
    if (word == "if") return branch();
    if (word == "while" || word == "until") return loop(word);
    if (word == "for" || word == "select") return for_loop();
    if (word == "case") return choice();
    if (word == "[[") return condition();
    if (word == "function") {
      at_ += word.size();
      skip_blanks();
      return function();
    }
    if (is_function_ahead()) return function();
    return simple();
  }

  bool is_function_ahead() const {
    std::size_t at = at_;
    while (at < text_.size() && (is_name_character(text_[at]) || text_[at] == '-')) ++at;
    if (at == at_) return false;
    while (at < text_.size() && is_blank(text_[at])) ++at;
    if (at >= text_.size() || text_[at] != '(') return false;
    for (++at; at < text_.size() && is_blank(text_[at]);) ++at;
    return at < text_.size() && text_[at] == ')';
  }

  std::shared_ptr<Command> function() {
    auto result = begin(Command::Kind::function);
    result->name = reserved_word();
    at_ += result->name.size();
    skip_blanks();
    if (peek() == '(') {
      ++at_;
      skip_blanks();
      if (peek() == ')') ++at_;
    }
    skip_lines();
    if (at_end()) fail_at(result->place, "the function has no body");
    result->commands.push_back(command());
    return result;
  }

  std::shared_ptr<Command> compound(Command::Kind kind, std::string_view open,
                                    std::string_view close) {
    auto result = begin(kind);
    at_ += open.size();
    result->commands.push_back(sequence({close}));
    if (!looking_at(close))
      fail_at(result->place, concat("\"", open, "\" without \"", close, "\""));
    at_ += close.size();
    redirections(result);
    return result;
  }

  std::string source_since(std::size_t begin) const {
    return trim(text_.characters().substr(begin, at_ - begin));
  }

  std::shared_ptr<Command> branch() {
    auto result = begin(Command::Kind::branch);
    at_ += 2;
    while (true) {
      const std::size_t begin = at_;
      auto asked = sequence({"then"});
      asked->source = source_since(begin);
      while (asked->source.ends_with(';')) asked->source.pop_back();
      result->commands.push_back(std::move(asked));
      take_reserved("then", result->place, "if");
      result->commands.push_back(sequence({"elif", "else", "fi"}));
      if (!at_reserved("elif")) break;
      at_ += 4;
    }
    if (at_reserved("else")) {
      at_ += 4;
      result->commands.push_back(sequence({"fi"}));
    }
    take_reserved("fi", result->place, "if");
    redirections(result);
    return result;
  }

  std::shared_ptr<Command> loop(const std::string& word) {
    auto result = begin(Command::Kind::loop);
    result->operators.push_back(word);
    at_ += word.size();
    const std::size_t begin = at_;
    auto asked = sequence({"do"});
    asked->source = source_since(begin);
    result->commands.push_back(std::move(asked));
    body(result, word);
    return result;
  }

  void body(const std::shared_ptr<Command>& result, std::string_view of) {
    take_reserved("do", result->place, of);
    result->commands.push_back(sequence({"done"}));
    take_reserved("done", result->place, of);
    redirections(result);
  }

  std::shared_ptr<Command> for_loop() {
    auto result = begin(Command::Kind::for_each);
    at_ += reserved_word().size();
    skip_blanks();
    if (looking_at("((")) {
      result->kind = Command::Kind::for_numbers;
      const std::size_t end = closing(at_);
      if (end == std::string::npos) fail_at(result->place, "the parenthesis does not end");
      std::size_t begin = at_ + 2;
      for (int i = 0; i < 3; ++i) {
        const std::size_t until =
            i < 2 ? std::min(text_.characters().find(';', begin), end - 1) : end - 1;
        result->words.push_back(inner_quoted(begin, std::max(begin, until)));
        begin = until + 1;
      }
      at_ = end + 1;
    } else {
      result->name = reserved_word();
      at_ += result->name.size();
      skip_lines();
      if (at_reserved("in")) {
        at_ += 2;
        result->has_words = true;
        for (skip_blanks(); at_word(); skip_blanks()) result->words.push_back(word());
      }
    }
    skip_blanks();
    if (peek() == ';') ++at_;
    body(result, "for");
    return result;
  }

  std::shared_ptr<Command> choice() {
    auto result = begin(Command::Kind::choice);
    at_ += 4;
    skip_lines();
    result->words.push_back(word());
    take_reserved("in", result->place, "case");
    for (skip_lines(); !at_end() && !at_reserved("esac"); skip_lines()) {
      result->cases.push_back(one_case(result->place));
    }
    take_reserved("esac", result->place, "case");
    redirections(result);
    return result;
  }

  Case one_case(const Place& start) {
    Case result;
    if (peek() == '(') ++at_;
    while (true) {
      skip_blanks();
      result.patterns.push_back(word());
      skip_blanks();
      if (peek() != '|') break;
      ++at_;
    }
    if (peek() != ')') fail_at(start, "a pattern of the \"case\" has no \")\"");
    ++at_;
    result.body = sequence({"esac", ";;", ";&"});
    while (peek() == ';' || peek() == '&') ++at_;
    return result;
  }

  std::shared_ptr<Command> condition() {
    auto result = begin(Command::Kind::condition);
    const std::size_t begin = at_;
    at_ += 2;
    bool is_pattern = false;
    for (skip_lines(); !at_end() && !at_reserved("]]"); skip_lines()) {
      if (looking_at("&&") || looking_at("||")) {
        result->words.push_back(operator_word(2));
      } else if (is_operator(peek()) && !is_pattern) {
        result->words.push_back(operator_word(1));
      } else {
        result->words.push_back(word(is_pattern));
      }
      const Word& last = result->words.back();
      is_pattern = last.parts.size() == 1 && last.parts[0].text.characters() == "=~";
    }
    if (at_end()) fail_at(result->place, "\"[[\" without \"]]\"");
    at_ += 2;
    result->source = source_since(begin);
    redirections(result);
    return result;
  }

  Word operator_word(std::size_t size) {
    Word result{.parts = {}, .place = here()};
    result.parts.push_back({.text = text_.piece(at_, size)});
    at_ += size;
    return result;
  }

  std::shared_ptr<Command> arithmetic_command() {
    auto result = begin(Command::Kind::arithmetic);
    const std::size_t begin = at_;
    const std::size_t outer = closing(at_);
    result->words.push_back(inner_quoted(at_ + 2, outer - 1));
    at_ = outer + 1;
    result->source = source_since(begin);
    redirections(result);
    return result;
  }

  // --- Simple commands ---

  void redirections(const std::shared_ptr<Command>& result) {
    for (skip_blanks(); redirection(result); skip_blanks()) {
    }
  }

  bool redirection(const std::shared_ptr<Command>& result) {
    std::size_t digits = 0;
    while (is_digit(peek(digits))) ++digits;
    constexpr std::array operations{"<<<", "<<-", "<<", "<&", "<>", "&>>",
                                    "&>",  ">>",  ">&", ">|", "<",  ">"};
    for (const std::string_view operation : operations) {
      if (std::string_view(text_.characters()).substr(at_ + digits, operation.size()) != operation)
        continue;
      if (text_[at_ + digits + operation.size() - 1] != '(' &&
          peek(digits + operation.size()) == '(' && operation.size() == 1) {
        return false;  // <(…), >(…)
      }
      at_ += digits + operation.size();
      skip_blanks();
      Redirection read{.operation = std::string(operation), .target = {}, .document = {}};
      if (at_word()) read.target = word();
      result->redirections.push_back(std::move(read));
      if (operation == "<<<") {
        result->redirections.back().document = result->redirections.back().target;
      } else if (operation.starts_with("<<")) {
        wait_for_document(result, operation == "<<-");
      }
      return true;
    }
    return false;
  }

  void wait_for_document(const std::shared_ptr<Command>& result, bool strips_tabs) {
    Waiting waiting{.end = {},
                    .strips_tabs = strips_tabs,
                    .is_quoted = false,
                    .command = result,
                    .redirection = result->redirections.size() - 1};
    for (const Part& part : result->redirections.back().target.parts) {
      waiting.end += part.text.characters();
      waiting.is_quoted = waiting.is_quoted || part.quoted;
    }
    waiting_.push_back(std::move(waiting));
  }

  /// The length of NAME, NAME[…] if "=" or "+=" follows; 0 otherwise.
  std::size_t assignment_ahead() const {
    if (!is_name_start(peek())) return 0;
    std::size_t end = at_;
    while (end < text_.size() && is_name_character(text_[end])) ++end;
    const std::size_t name = end - at_;
    if (end < text_.size() && text_[end] == '[') {
      end = text_.characters().find(']', end);
      if (end == std::string::npos) return 0;
      ++end;
    }
    const bool assigns = end < text_.size() &&
                         (text_[end] == '=' ||
                          (text_[end] == '+' && end + 1 < text_.size() && text_[end + 1] == '='));
    return assigns ? name : 0;
  }

  Assignment assignment() {
    Assignment result{.place = here()};
    const std::size_t name = assignment_ahead();
    result.name = text_.characters().substr(at_, name);
    at_ += name;
    if (peek() == '[') {
      ++at_;
      result.subscript = argument("]", false);
      ++at_;
    }
    if (peek() == '+') {
      result.appends = true;
      ++at_;
    }
    ++at_;
    if (peek() != '(') {
      result.value = word();
      return result;
    }
    result.is_array = true;
    const Place start = here();
    ++at_;
    for (skip_lines(); !at_end() && peek() != ')'; skip_lines()) {
      Element element;
      if (peek() == '[') {
        const std::size_t before = at_;
        ++at_;
        Word key = argument("]", false);
        if (looking_at("]=")) {
          at_ += 2;
          element.key = std::move(key);
        } else {
          at_ = before;
        }
      }
      const std::size_t before = at_;
      // A stray operator, as in a placeholder such as <path>, is a character here.
      element.value = word();
      if (at_ == before) {
        element.value = operator_word(1);
      }
      result.elements.push_back(std::move(element));
    }
    if (at_end()) fail_at(start, "the array does not end");
    ++at_;
    return result;
  }

  std::shared_ptr<Command> simple() {
    auto result = begin(Command::Kind::simple);
    bool declares = false;
    for (skip_blanks(); !at_end(); skip_blanks()) {
      if (redirection(result)) continue;
      if (!at_word()) break;
      if ((result->words.empty() || declares) && assignment_ahead() > 0) {
        result->assignments.push_back(assignment());
        continue;
      }
      const bool bars =
          !result->words.empty() && has_bars_before(result->words.back(), syntax_.flags_with_bars);
      result->words.push_back(word(bars));
      if (result->words.size() > 1) continue;
      constexpr std::array declaring{"export", "declare", "local", "readonly", "typeset"};
      const Word& first = result->words[0];
      declares = first.parts.size() == 1 &&
                 std::ranges::count(declaring, first.parts[0].text.characters()) > 0;
    }
    const bool is_empty =
        result->words.empty() && result->assignments.empty() && result->redirections.empty();
    if (is_empty) {
      fail_here(at_end() ? std::string("the script ends in the middle of a command")
                         : concat("unexpected \"", std::string(1, peek()), "\""));
    }
    return result;
  }

  const Text text_;
  const Syntax& syntax_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<Waiting> waiting_;
};

}  // namespace

std::shared_ptr<const Command> parse_script(const Text& text, const Syntax& syntax) {
  return Parser(text, syntax).script();
}

Word parse_quoted(const Text& text, const Syntax& syntax) {
  return Parser(text, syntax).quoted();
}

bool is_name(std::string_view text) {
  return !text.empty() && is_name_start(text[0]) &&
         std::all_of(text.begin(), text.end(), is_name_character);
}

}  // namespace stagecraft::shell
