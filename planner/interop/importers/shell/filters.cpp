// Small programs in substitutions, whose output follows from what they are given.

#include <algorithm>
#include <optional>

#include "planner/interop/importers/shell/interpreter.hpp"
#include "planner/interop/importers/shell/outcomes.hpp"
#include "profiles/text.hpp"

namespace stagecraft::shell {

namespace {

/// What a small program is given: its words behind its options, and what it reads.
struct Given {
  const std::string& name;
  const std::vector<Text>& words;
  std::vector<Text> operands;
  Text all;  ///< operands, with blanks between them
  Text input;
  Place place;
};

std::vector<Text> operands_of(const std::string& name, const std::vector<Text>& words) {
  std::vector<Text> operands;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i].characters();
    // A number below zero is none of seq's options.
    const bool may_be_number =
        name == "expr" || (name == "seq" && word.size() > 1 && word[1] >= '0' && word[1] <= '9');
    const bool is_option = word.size() > 1 && word[0] == '-' && !may_be_number && operands.empty();
    const bool has_value = name == "seq" && (word == "-s" || word == "-f");
    if (is_option && has_value) ++i;
    if (!is_option) operands.push_back(words[i]);
  }
  return operands;
}

/// What `seq -s, 8` and `seq -s , 8` write between numbers; nothing if they are to be of a format.
std::optional<std::string> separator_of(const std::vector<Text>& words) {
  std::string separator = "\n";
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i].characters();
    if (word.starts_with("-f") || word == "-w" || word.starts_with("--")) return {};
    if (word == "-s" && i + 1 < words.size()) {
      separator = words[++i].characters();
    } else if (word.starts_with("-s")) {
      separator = word.substr(2);
    }
  }
  return separator;
}

Text with_blanks_between(const std::vector<Text>& operands, const Place& place) {
  Text all;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (i > 0) all.append(" ", place);
    all.append(operands[i]);
  }
  return all;
}

Text folder_of(const Given& given) {
  const std::size_t slash = given.all.characters().find_last_of('/');
  if (slash == std::string::npos) return {".", given.place};
  return given.all.piece(0, std::max<std::size_t>(slash, 1));
}

Text base_of(const std::vector<Text>& operands) {
  const std::size_t slash = operands[0].characters().find_last_of('/');
  Text base = operands[0].piece(slash == std::string::npos ? 0 : slash + 1);
  if (operands.size() > 1 && base.is_known() &&
      base.characters().ends_with(operands[1].characters()))
    base = base.piece(0, base.size() - operands[1].size());
  return base;
}

/// Of `tr -d SET` and `tr A B`; nothing for what else it can do.
std::optional<Text> translated(const Given& given) {
  if (!given.input.is_known()) return {};
  std::string characters = given.input.characters();
  if (given.words.size() == 3 && given.words[1].characters() == "-d") {
    const std::string& left_out = given.words[2].characters();
    std::erase_if(characters, [&](char c) { return left_out.find(c) != std::string::npos; });
    return Text(characters, given.place);
  }
  const std::vector<Text>& operands = given.operands;
  if (operands.size() != 2 || operands[0].size() != 1 || operands[1].size() != 1) return {};
  std::replace(characters.begin(), characters.end(), operands[0].characters()[0],
               operands[1].characters()[0]);
  return Text(characters, given.place);
}

/// What is written as it is, without an end of line.
std::optional<Text> passed_on(const Given& given) {
  const std::vector<Text>& operands = given.operands;
  if (given.name == "printf" && operands.size() == 1) return operands[0];
  if (given.name == "printf" && operands.size() == 2 && operands[0].characters().starts_with("%s"))
    return operands[1];
  if (given.name == "cat" && operands.empty()) return given.input;
  if (given.name == "tee" || given.name == "xargs") return given.input;
  return given.name == "tr" ? translated(given) : std::nullopt;
}

/// A line, that needs no arithmetic.
std::optional<Text> line_of(const Given& given) {
  const std::vector<Text>& operands = given.operands;
  if (given.name == "echo") return given.all;
  if ((given.name == "realpath" || given.name == "readlink") && operands.size() == 1)
    return operands[0];
  if (given.name == "dirname" && operands.size() == 1) return folder_of(given);
  if (given.name == "basename" && !operands.empty()) return base_of(operands);
  return {};
}

}  // namespace

/// Of `wc -l` and `wc -w`, of what is known.
std::optional<std::int64_t> Interpreter::counted(const std::vector<Text>& words,
                                                 const Text& input) const {
  if (!input.is_known() || words.size() != 2) return {};
  if (words[1].characters() == "-l") return std::ranges::count(input.characters(), '\n');
  if (words[1].characters() == "-w") return std::ssize(split({{input, false, false}}));
  return {};
}

/// Of `expr` and `bc`: whole numbers alone; nothing for others.
std::optional<Text> Interpreter::calculated(const Text& expression, const std::vector<Text>& words,
                                            const Place& place) {
  if (expression.characters().find_first_of(".;=") != std::string::npos) return {};
  State none;
  const Number number = number_of(expression, place, none);
  if (number.is_known()) return Text(std::to_string(number.value), place);
  std::string source;
  for (const Text& word : words) source += (source.empty() ? "" : " ") + shown(word);
  return derived("$(" + source + ")", place, number.unknowns);
}

/// Of `seq [FIRST [BY]] LAST`.
std::vector<std::int64_t> Interpreter::counted_up(const std::vector<Text>& operands,
                                                  const Place& place) {
  State none;
  std::vector<std::int64_t> numbers;
  for (const Text& operand : operands) numbers.push_back(number_of(operand, place, none).value);
  const std::int64_t first = numbers.size() > 1 ? numbers[0] : 1;
  const std::int64_t by = numbers.size() > 2 ? numbers[1] : 1;
  const std::int64_t last = numbers.back();
  if (by == 0 || (last - first) / by > 10'000) fail_at(place, "a range of more than 10000 numbers");
  std::vector<std::int64_t> all;
  for (std::int64_t i = first; by > 0 ? i <= last : i >= last; i += by) all.push_back(i);
  return all;
}

/// Small programs whose output follows from their words and what they read.
void Interpreter::run_filter(const std::string& name, const std::vector<Text>& words,
                             const Command& command) {
  const Place place = command.place;
  const auto print = [&](const Text& text) {
    capture_->text.append(text);
    capture_->text.append("\n", place);
  };
  const std::vector<Text> operands = operands_of(name, words);
  const Given given{.name = name,
                    .words = words,
                    .operands = operands,
                    .all = with_blanks_between(operands, place),
                    .input = capture_->input,
                    .place = place};
  if (const auto text = passed_on(given)) return capture_->text.append(*text);
  if (const auto line = line_of(given)) return print(*line);
  if (name == "expr" || name == "bc") {
    const Text& input = given.input;
    const Text expression =
        name == "bc" ? input.piece(0, input.characters().find_last_not_of('\n') + 1) : given.all;
    if (const auto result = calculated(expression, words, place)) return print(*result);
  }
  const auto separator = name == "seq" ? separator_of(words) : std::nullopt;
  if (separator && given.all.is_known() && !operands.empty() && operands.size() <= 3) {
    std::string text;
    for (const std::int64_t number : counted_up(operands, place))
      text += concat(text.empty() ? "" : *separator, number);
    return print(Text(text, place));
  }
  if (name == "wc") {
    if (const auto count = counted(words, given.input))
      return print(Text(std::to_string(*count), place));
  }
  capture_->is_unknown = true;
}

}  // namespace stagecraft::shell
