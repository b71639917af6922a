#include <algorithm>

#include "planner/interop/importers/shell/interpreter.hpp"
#include "planner/interop/importers/shell/patterns.hpp"

namespace stagecraft::shell {

namespace {

constexpr std::string_view blanks = " \t\n\r";

bool is_blank_character(char c) {
  return blanks.find(c) != std::string_view::npos;
}

std::optional<std::int64_t> integer(std::string_view text) {
  if (text.empty() || text.size() > 18) return {};
  std::size_t at = text[0] == '-' ? 1 : 0;
  if (at == text.size()) return {};
  std::int64_t value = 0;
  for (; at < text.size(); ++at) {
    if (text[at] < '0' || text[at] > '9') return {};
    value = 10 * value + (text[at] - '0');
  }
  return text[0] == '-' ? -value : value;
}

std::string in_case(std::string_view text, std::string_view operation) {
  std::string result(text);
  const std::size_t count =
      operation.size() == 2 ? result.size() : std::min<std::size_t>(1, result.size());
  for (std::size_t i = 0; i < count; ++i) {
    char& c = result[i];
    if (operation[0] == '^' && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (operation[0] == ',' && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

/// As a prefix of what it is part of.
bool is_list_name(const std::string& name) {
  return name == "@" || name == "*";
}

}  // namespace

// --- Words ---

std::vector<Piece> Interpreter::expand(const Word& word, State& state) {
  std::vector<Piece> pieces;
  for (const Part& part : word.parts) {
    switch (part.kind) {
      case Part::Kind::literal: pieces.push_back({part.text, part.quoted, false}); break;
      case Part::Kind::parameter: expand_parameter(part, state, pieces); break;
      case Part::Kind::substitution:
        pieces.push_back({substituted(part, state), part.quoted, false});
        break;
      case Part::Kind::arithmetic:
        pieces.push_back({arithmetic_text(part, state), part.quoted, false});
        break;
      case Part::Kind::process:
        pieces.push_back({hole({.name = part.text.characters(),
                                .expression = part.text.characters(),
                                .place = part.text.place()}),
                          true, false});
        break;
    }
  }
  constexpr std::size_t of_a_piece = 10;
  for (const Piece& piece : pieces) work(of_a_piece + piece.text.weight(), word.place);
  return pieces;
}

Text Interpreter::joined(const Word& word, State& state) {
  Text text("", word.place);
  bool is_first = true;
  for (const Piece& piece : expand(word, state)) {
    if (piece.begins_field && !is_first) text.append(" ", piece.text.place());
    text.append(piece.text);
    is_first = false;
  }
  return text;
}

std::vector<Text> Interpreter::split(const std::vector<Piece>& pieces) const {
  std::vector<Text> result;
  bool is_open = false;
  const auto open = [&](const Place& place) {
    if (!is_open) result.emplace_back("", place);
    is_open = true;
  };
  for (const Piece& piece : pieces) {
    if (piece.begins_field) is_open = false;
    if (piece.is_quoted) {
      open(piece.text.place());
      result.back().append(piece.text);
      continue;
    }
    const std::string& characters = piece.text.characters();
    for (std::size_t at = 0; at < characters.size();) {
      std::size_t end = at;
      while (end < characters.size() && !is_blank_character(characters[end])) ++end;
      if (end > at) {
        const Text part = piece.text.piece(at, end - at);
        open(part.place());
        result.back().append(part);
      }
      if (end < characters.size()) is_open = false;
      at = end + 1;
    }
  }
  return result;
}

std::vector<Word> Interpreter::braces(const Word& word) const {
  if (word.parts.size() != 1 || word.parts[0].kind != Part::Kind::literal || word.parts[0].quoted)
    return {word};
  const Text& text = word.parts[0].text;
  const std::string& characters = text.characters();
  const std::size_t open = characters.find('{');
  const std::size_t dots = characters.find("..", open);
  const std::size_t close = characters.find('}', open);
  if (open == std::string::npos || dots == std::string::npos || close == std::string::npos ||
      dots > close) {
    return {word};
  }
  const std::size_t second = characters.find("..", dots + 2);
  const std::size_t last_end = std::min(second, close);
  const auto number = [&](std::size_t begin, std::size_t end) {
    return integer(std::string_view(characters).substr(begin, end - begin));
  };
  const auto first = number(open + 1, dots);
  const auto last = number(dots + 2, last_end);
  const auto by = last_end < close ? number(last_end + 2, close) : std::optional<std::int64_t>(1);
  if (!first || !last || !by || *by == 0) return {word};
  constexpr std::int64_t most = 10'000;
  if (*first - *last > most || *last - *first > most)
    fail_at(text.place(open), concat("a range of more than ", most, " numbers"));
  std::vector<Word> result;
  const std::int64_t step_size = *by < 0 ? -*by : *by;
  for (std::int64_t i = *first; *first <= *last ? i <= *last : i >= *last;
       i += *first <= *last ? step_size : -step_size) {
    Text one = text.piece(0, open);
    one.append(std::to_string(i), text.place(open));
    one.append(text.piece(close + 1));
    result.push_back({.parts = {{.text = one}}, .place = word.place});
  }
  return result;
}

std::vector<Text> Interpreter::fields(const std::vector<Word>& words, State& state) {
  std::vector<Text> result;
  for (const Word& unexpanded : words) {
    const std::size_t before = result.size();
    for (const Word& word : braces(unexpanded)) {
      for (Text& field : split(expand(word, state))) result.push_back(std::move(field));
      if (result.size() > 100'000) fail_at(word.place, "a command of more than 100000 words");
    }
    constexpr std::size_t of_a_field = 200;
    work(of_a_field * (result.size() - before), unexpanded.place);
  }
  return result;
}

std::string Interpreter::pattern(const Word& word, State& state, std::vector<int>& unknowns) {
  std::string result;
  for (const Piece& piece : expand(word, state)) {
    result += piece.is_quoted ? escaped(piece.text.characters()) : piece.text.characters();
    for (const int unknown : piece.text.unknowns()) unknowns.push_back(unknown);
  }
  return result;
}

// --- Parameters ---

Text Interpreter::element_of(const Variable& variable, const Word& subscript, const Place& place,
                             State& state) {
  const Text key = joined(subscript, state);
  if (variable.is_map) {
    const auto found = variable.keyed.find(key.characters());
    if (found != variable.keyed.end()) return found->second;
    return key.is_known() ? Text("", place) : derived(shown(key), place, key.unknowns());
  }
  const Number index = number_of(key, place, state);
  if (!index.is_known()) return derived(shown(key), place, index.unknowns);
  std::int64_t at = index.value;
  if (at < 0 && !variable.elements.empty()) at += variable.elements.rbegin()->first + 1;
  const auto found = variable.elements.find(at);
  return found == variable.elements.end() ? Text("", place) : found->second;
}

Interpreter::Value Interpreter::value_of(const Part& part, State& state) {
  const Place place = part.text.place();
  if (!part.refers) return value_of(part.name, part.subscript, place, state);
  const auto found = state.variables.find(part.name);
  if (part.subscript && found != state.variables.end()) {  // ${!X[@]}: the keys
    Value keys{.elements = {}, .is_list = true, .joins = false, .is_set = true};
    for (const auto& [key, text] : found->second.keyed) keys.elements.emplace_back(key, place);
    for (const auto& [key, text] : found->second.elements) {
      if (!found->second.is_map) keys.elements.emplace_back(std::to_string(key), place);
    }
    return keys;
  }
  const Value name = value_of(part.name, {}, place, state);
  if (name.elements.size() == 1 && name.elements[0].is_known())
    return value_of(name.elements[0].characters(), {}, place, state);
  std::vector<int> causes;
  for (const Text& text : name.elements) {
    for (const int unknown : text.unknowns()) causes.push_back(unknown);
  }
  return {.elements = {derived(part.text.characters(), place, causes)},
          .is_list = false,
          .joins = false,
          .is_set = true};
}

Interpreter::Value Interpreter::value_of(const std::string& name,
                                         const std::optional<Word>& subscript, const Place& place,
                                         State& state) {
  const auto one = [](Text text) {
    return Value{.elements = {std::move(text)}, .is_list = false, .joins = false, .is_set = true};
  };
  if (is_list_name(name)) {
    Value all{.elements = state.arguments, .is_list = true, .joins = name == "*", .is_set = true};
    if (!state.has_arguments) {
      all.elements = {unset(name, place)};
      all.is_set = false;
    }
    return all;
  }
  if (name == "#") {
    if (!state.has_arguments) return one(unset(name, place));
    return one(Text(std::to_string(state.arguments.size()), place));
  }
  if (name == "?") return one(Text("0", place));
  if (name == "-") return one(Text("", place));
  if (name == "0") return one(state.script);
  if (name == "BASH_SOURCE") return one(state.source);
  if (name == "$" || name == "!")
    return one(hole({.name = "$" + name, .expression = "$" + name, .place = place}));
  reading_.used.insert(name);
  if (const std::string* value = setting(name)) return one(Text(*value, place));
  const auto number = integer(name);
  if (number) {
    const auto index = static_cast<std::size_t>(*number);
    if (index >= 1 && index <= state.arguments.size()) return one(state.arguments[index - 1]);
    Value none{.elements = {state.has_arguments ? Text("", place) : unset(name, place)}};
    return none;
  }
  const auto found = state.variables.find(name);
  if (found == state.variables.end()) {
    if (name == "PWD")
      return one(state.folder.value_or(hole({.name = name, .expression = "$PWD", .place = place})));
    constexpr std::string_view always[] = {"HOME",    "USER",    "HOSTNAME", "RANDOM",
                                           "SECONDS", "LOGNAME", "SHELL",    "PATH",
                                           "UID",     "TMPDIR",  "LINENO"};
    if (std::ranges::count(always, name) > 0)
      return one(hole({.name = name, .expression = "$" + name, .place = place}));
    return {.elements = {unset(name, place)},
            .is_list = subscript.has_value(),
            .joins = false,
            .is_set = false};
  }
  const Variable& variable = found->second;
  const bool is_all = subscript && subscript->parts.size() == 1 &&
                      is_list_name(subscript->parts[0].text.characters());
  if (is_all) {
    Value all{.elements = {},
              .is_list = true,
              .joins = subscript->parts[0].text.characters() == "*",
              .is_set = true};
    for (const auto& [key, text] : variable.keyed) all.elements.push_back(text);
    for (const auto& [key, text] : variable.elements) all.elements.push_back(text);
    return all;
  }
  if (subscript) return one(element_of(variable, *subscript, place, state));
  const auto first = variable.elements.find(0);
  return one(first == variable.elements.end() ? Text("", place) : first->second);
}

void Interpreter::expand_parameter(const Part& part, State& state, std::vector<Piece>& pieces) {
  const Place place = part.text.place();
  if (const std::string* value = setting(part.text.characters());
      value != nullptr && part.text.characters().size() > 1 && !is_name(part.text.characters())) {
    pieces.push_back({Text(*value, place), part.quoted, false});
    return;
  }
  Value value = value_of(part, state);
  if (part.counts) {
    if (value.is_list) {
      pieces.push_back({Text(std::to_string(value.is_set ? value.elements.size() : 0), place),
                        part.quoted, false});
      return;
    }
    const Text& text = value.elements.front();
    pieces.push_back({text.is_known() ? Text(std::to_string(text.size()), place)
                                      : derived(part.text.characters(), place, text.unknowns()),
                      part.quoted, false});
    return;
  }
  if (expand_by_default(part, value, state, pieces)) return;
  if (value.is_list && part.operation == ":") {  // ${X[@]:1:2}, "${@:2}"
    const Text expression = joined(part.arguments[0], state);
    const Number first = number_of(expression, place, state);
    const auto begin = static_cast<std::ptrdiff_t>(
        std::clamp<std::int64_t>(first.value - (is_list_name(part.name) ? 1 : 0), 0,
                                 static_cast<std::int64_t>(value.elements.size())));
    if (value.is_set) value.elements.erase(value.elements.begin(), value.elements.begin() + begin);
    if (part.arguments.size() > 1 && value.is_set) {
      const Number count = number_of(joined(part.arguments[1], state), place, state);
      const auto most = static_cast<std::size_t>(std::max<std::int64_t>(count.value, 0));
      if (count.is_known() && most < value.elements.size()) value.elements.resize(most);
    }
  } else if (!part.operation.empty()) {
    for (Text& text : value.elements) text = changed(part, text, state);
  }
  const bool is_one = value.joins && part.quoted;
  for (std::size_t i = 0; i < value.elements.size(); ++i) {
    if (is_one && i > 0) pieces.push_back({Text(" ", place), true, false});
    const bool begins = value.is_list && !is_one && i > 0;
    // A list that nobody sets has no words; its hole is one of its own only without quotes.
    pieces.push_back({value.elements[i], part.quoted && (value.is_set || !value.is_list), begins});
  }
}

/// The operations that ask whether the parameter is set. True if that settled it.
bool Interpreter::expand_by_default(const Part& part, const Value& value, State& state,
                                    std::vector<Piece>& pieces) {
  const std::string& operation = part.operation;
  const bool minds_empty = operation.size() == 2 && operation[0] == ':';
  const char kind = operation.empty() ? '\0' : operation.back();
  const bool asks = operation == "-" || operation == "=" || operation == "+" || operation == "?" ||
                    (minds_empty && (kind == '-' || kind == '=' || kind == '+' || kind == '?'));
  if (!asks) return false;
  Truth asked;
  bool is_missing = !value.is_set || value.elements.empty();
  if (is_missing) {
    for (const Text& text : value.elements) emptied(text, asked);
  } else if (minds_empty) {
    is_missing = true;
    for (const Text& text : value.elements) is_missing = is_missing && emptied(text, asked).empty();
  }
  if (kind == '?') return false;
  // A default of the script's own is no assumption worth a word; but that there is none is.
  if (kind == '+') {
    if (is_missing) note_assumed(asked);
    if (!is_missing) {
      for (Piece& piece : expand(part.arguments[0], state)) {
        piece.is_quoted = piece.is_quoted || part.quoted;
        pieces.push_back(std::move(piece));
      }
    } else if (part.quoted) {
      pieces.push_back({Text("", part.text.place()), true, false});
    }
    return true;
  }
  if (!is_missing) return false;
  if (kind == '=') {
    Text text = joined(part.arguments[0], state);
    assign(part.name, text, part.text.place(), state);
    pieces.push_back({std::move(text), part.quoted, false});
    return true;
  }
  for (Piece& piece : expand(part.arguments[0], state)) {
    piece.is_quoted = piece.is_quoted || part.quoted;
    pieces.push_back(std::move(piece));
  }
  if (part.quoted && part.arguments[0].parts.empty())
    pieces.push_back({Text("", part.text.place()), true, false});
  return true;
}

Text Interpreter::changed(const Part& part, const Text& text, State& state) {
  const std::string& operation = part.operation;
  const Place place = text.empty() ? part.text.place() : text.place();
  if (operation == ":") return substring(part, text, state);
  if (operation.ends_with('?') || operation[0] == '@' || operation[0] == '*') return text;
  std::vector<int> unknowns = text.unknowns();
  const std::string asked = pattern(part.arguments[0], state, unknowns);
  Text by("", place);
  if (part.arguments.size() > 1) by = joined(part.arguments[1], state);
  for (const int unknown : by.unknowns()) unknowns.push_back(unknown);
  if (!unknowns.empty()) return derived(part.text.characters(), part.text.place(), unknowns);
  const std::string& characters = text.characters();
  std::string result;
  switch (operation[0]) {
    case '#': result = without_beginning(characters, asked, operation.size() == 2); break;
    case '%': result = without_end(characters, asked, operation.size() == 2); break;
    case '/': result = replaced(characters, asked, by.characters(), operation == "//"); break;
    default: result = in_case(characters, operation); break;
  }
  return {result, place};
}

Text Interpreter::substring(const Part& part, const Text& text, State& state) {
  const Place place = part.text.place();
  const Number first = number_of(joined(part.arguments[0], state), place, state);
  Number count{.value = static_cast<std::int64_t>(text.size()), .unknowns = {}};
  if (part.arguments.size() > 1) count = number_of(joined(part.arguments[1], state), place, state);
  std::vector<int> unknowns = text.unknowns();
  unknowns.insert(unknowns.end(), first.unknowns.begin(), first.unknowns.end());
  unknowns.insert(unknowns.end(), count.unknowns.begin(), count.unknowns.end());
  if (!unknowns.empty()) return derived(part.text.characters(), place, unknowns);
  const auto size = static_cast<std::int64_t>(text.size());
  const std::int64_t begin =
      std::clamp<std::int64_t>(first.value < 0 ? size + first.value : first.value, 0, size);
  const std::int64_t end = count.value < 0 ? std::max(begin, size + count.value)
                                           : begin + std::min(count.value, size - begin);
  return text.piece(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

// --- Numbers and commands in words ---

Number Interpreter::number_of(const Text& expression, const Place& place, State& state) {
  if (++expression_depth_ > 100)
    fail_at(place, "variables of an arithmetic expression refer to each other");
  constexpr std::size_t of_a_character = 10;
  work(of_a_character * expression.size(), place);
  const NumberVariables variables{
      .read =
          [&](const std::string& name) {
            const Value value = value_of(name, {}, place, state);
            const Text text = value.elements.empty() ? Text("", place) : value.elements[0];
            return number_of(text, place, state);
          },
      .write =
          [&](const std::string& name, const Number& value) {
            Text text(std::to_string(value.value), place);
            if (!value.is_known()) text = derived("$" + name, place, value.unknowns);
            assign(name, text, place, state);
          }};
  Number result;
  try {
    result = evaluate_arithmetic(expression.characters(), variables);
  } catch (const Error& error) {
    if (error.place()) throw;
    fail_at(place, error.message());
  }
  --expression_depth_;
  return result;
}

Text Interpreter::arithmetic_text(const Part& part, State& state) {
  const Place place = part.text.place();
  if (const std::string* value = setting(part.text.characters())) return {*value, place};
  const Text expression = joined(part.arguments[0], state);
  const int depth = expression_depth_;
  try {
    const Number number = number_of(expression, place, state);
    if (number.is_known()) return {std::to_string(number.value), place};
    return derived(part.text.characters(), place, number.unknowns);
  } catch (const Error&) {
    // The shell would complain and go on; it matters only where the value is used.
    expression_depth_ = depth;
    return derived(part.text.characters(), place, {});
  }
}

Text Interpreter::substituted(const Part& part, State& state) {
  const Place place = part.text.place();
  if (const std::string* value = setting(part.text.characters())) return {*value, place};
  Capture capture{.text = Text("", place), .is_unknown = false, .input = {}};
  Capture* const outer = capture_;
  capture_ = &capture;
  State inside = copy_of(state, place);
  try {
    run(*part.body, inside);
  } catch (...) {
    capture_ = outer;
    throw;
  }
  capture_ = outer;
  if (capture.is_unknown) {
    return hole(
        {.name = part.text.characters(), .expression = part.text.characters(), .place = place});
  }
  const std::string& characters = capture.text.characters();
  const std::size_t end = characters.find_last_not_of('\n');
  return capture.text.piece(0, end == std::string::npos ? 0 : end + 1);
}

}  // namespace stagecraft::shell
