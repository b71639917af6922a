#include <algorithm>
#include <array>
#include <regex>

#include "planner/interop/importers/shell/interpreter.hpp"
#include "planner/interop/importers/shell/patterns.hpp"

namespace stagecraft::shell {

namespace {

Truth unknown_for(std::vector<int> causes) {
  return {.answer = Truth::Answer::unknown,
          .is_assumed = false,
          .is_program = false,
          .causes = std::move(causes)};
}

void take_over(Truth& into, const Truth& from) {
  into.is_assumed = into.is_assumed || from.is_assumed;
  into.is_program = into.is_program || from.is_program;
  into.causes.insert(into.causes.end(), from.causes.begin(), from.causes.end());
}

/// "and" of two answers; a "no" settles it.
Truth both(const Truth& left, const Truth& right) {
  if (left.answer == Truth::Answer::no) return left;
  if (right.answer == Truth::Answer::no) return right;
  Truth result = left;
  take_over(result, right);
  if (right.answer == Truth::Answer::unknown) result.answer = Truth::Answer::unknown;
  return result;
}

constexpr std::array number_comparisons{"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};

bool is_binary(const std::string& word, bool is_double) {
  constexpr std::array strings{"=", "==", "!=", "-nt", "-ot", "-ef"};
  constexpr std::array doubles{"=~", "<", ">"};
  return std::ranges::count(strings, word) > 0 ||
         std::ranges::count(number_comparisons, word) > 0 ||
         (is_double && std::ranges::count(doubles, word) > 0) || word == "<" || word == ">";
}

bool is_unary(const std::string& word) {
  return word.size() == 2 && word[0] == '-' &&
         std::string_view("zndefrwxsvLhpbcguktSONG").find(word[1]) != std::string_view::npos;
}

bool holds(std::int64_t left, const std::string& operation, std::int64_t right) {
  if (operation == "-eq") return left == right;
  if (operation == "-ne") return left != right;
  if (operation == "-lt") return left < right;
  if (operation == "-le") return left <= right;
  if (operation == "-gt") return left > right;
  return left >= right;
}

}  // namespace

Truth truth(bool yes) {
  return {.answer = yes ? Truth::Answer::yes : Truth::Answer::no,
          .is_assumed = false,
          .is_program = false,
          .causes = {}};
}

Truth operator!(Truth asked) {
  if (asked.answer == Truth::Answer::yes) {
    asked.answer = Truth::Answer::no;
  } else if (asked.answer == Truth::Answer::no) {
    asked.answer = Truth::Answer::yes;
  }
  return asked;
}

Truth Interpreter::test(const std::vector<Text>& words, const Place& place, State& state) {
  Tokens tokens{.all = {}, .at = 0, .is_double = false, .state = &state, .place = place};
  for (const Text& word : words) {
    tokens.all.push_back({.text = word,
                          .pattern = escaped(word.characters()),
                          .pattern_unknowns = word.unknowns(),
                          .is_operator = true});
  }
  return tokens.all.empty() ? truth(false) : any_of(tokens);
}

Truth Interpreter::test(const Command& condition, State& state) {
  Tokens tokens{.all = {}, .at = 0, .is_double = true, .state = &state, .place = condition.place};
  for (const Word& word : condition.words) {
    Token token{.text = joined(word, state)};
    token.pattern = pattern(word, state, token.pattern_unknowns);
    token.is_operator = word.parts.size() == 1 && word.parts[0].kind == Part::Kind::literal &&
                        !word.parts[0].quoted;
    tokens.all.push_back(std::move(token));
  }
  return tokens.all.empty() ? truth(false) : any_of(tokens);
}

Truth Interpreter::any_of(Tokens& tokens) {
  Truth result = all_of(tokens);
  while (tokens.at < tokens.all.size() && tokens.all[tokens.at].is_operator &&
         (tokens.all[tokens.at].text.characters() == "||" ||
          tokens.all[tokens.at].text.characters() == "-o")) {
    ++tokens.at;
    const Truth right = all_of(tokens);
    result = !both(!result, !right);
  }
  return result;
}

Truth Interpreter::all_of(Tokens& tokens) {
  Truth result = one_of(tokens);
  while (tokens.at < tokens.all.size() && tokens.all[tokens.at].is_operator &&
         (tokens.all[tokens.at].text.characters() == "&&" ||
          tokens.all[tokens.at].text.characters() == "-a")) {
    ++tokens.at;
    result = both(result, one_of(tokens));
  }
  return result;
}

Truth Interpreter::one_of(Tokens& tokens) {
  if (tokens.at >= tokens.all.size()) return truth(false);
  if (++expression_depth_ > 100) fail_at(tokens.place, "a condition is nested too deeply");
  const auto& all = tokens.all;
  const std::size_t left = all.size() - tokens.at;
  const Token& first = all[tokens.at];
  const std::string word = first.is_operator ? first.text.characters() : "";
  const auto operation = [&](std::size_t ahead) {
    return ahead < left && all[tokens.at + ahead].is_operator
               ? all[tokens.at + ahead].text.characters()
               : std::string();
  };
  Truth result;
  if (left >= 3 && is_binary(operation(1), tokens.is_double)) {
    result = binary(first, operation(1), all[tokens.at + 2], tokens);
    tokens.at += 3;
  } else if (word == "!") {
    ++tokens.at;
    result = !one_of(tokens);
  } else if (word == "(") {
    ++tokens.at;
    result = any_of(tokens);
    if (operation(0).empty() || tokens.at >= all.size() || all[tokens.at].text.characters() == ")")
      ++tokens.at;
  } else if (left >= 2 && is_unary(word)) {
    result = unary(word, all[tokens.at + 1], tokens);
    tokens.at += 2;
  } else {
    result = unary("-n", first, tokens);
    ++tokens.at;
  }
  --expression_depth_;
  return result;
}

Truth Interpreter::unary(const std::string& operation, const Token& operand, Tokens& tokens) {
  if (operation == "-v") {
    const std::string& name = operand.text.characters();
    return truth(setting(name) != nullptr || tokens.state->variables.contains(name));
  }
  if (operation == "-t") return truth(false);
  Truth result = truth(true);
  const Text text = emptied(operand.text, result);
  if (operation == "-z" || operation == "-n") {
    const bool has_letters = text.size() > Text::hole_size * text.unknowns().size();
    if (!text.is_known() && !has_letters) return unknown_for(text.unknowns());
    const bool yes = text.empty() == (operation == "-z");
    result.answer = yes ? Truth::Answer::yes : Truth::Answer::no;
    return result;
  }
  if (text.empty()) {
    result.answer = Truth::Answer::no;
    return result;
  }
  if (reading_.documents.contains(operand.text.characters())) return truth(true);
  return {.answer = Truth::Answer::unknown, .is_assumed = false, .is_program = true, .causes = {}};
}

Truth Interpreter::binary(const Token& left, const std::string& operation, const Token& right,
                          Tokens& tokens) {
  if (std::ranges::count(number_comparisons, operation) > 0)
    return compare_numbers(left, operation, right, tokens);
  Truth result = truth(true);
  const Text one = emptied(left.text, result);
  const Text other = emptied(right.text, result);
  std::vector<int> unknowns = one.unknowns();
  for (const int unknown : other.unknowns()) unknowns.push_back(unknown);
  if (!unknowns.empty()) return unknown_for(std::move(unknowns));
  bool yes = false;
  if (operation == "=~") {
    constexpr std::size_t longest = 200;
    if (one.size() > longest || other.size() > longest) return unknown_for({});
    try {
      yes =
          std::regex_search(one.characters(), std::regex(other.characters(), std::regex::extended));
    } catch (const std::regex_error&) {
      return unknown_for({});
    }
  } else if (operation == "<" || operation == ">") {
    yes = operation == "<" ? one.characters() < other.characters()
                           : one.characters() > other.characters();
  } else if (operation.starts_with('-')) {
    return {
        .answer = Truth::Answer::unknown, .is_assumed = false, .is_program = true, .causes = {}};
  } else {
    const bool has_holes = !right.pattern_unknowns.empty();  // of variables that nobody sets
    const bool equal = has_holes ? one.characters() == other.characters()
                                 : matches(right.pattern, one.characters());
    yes = equal == (operation != "!=");
  }
  result.answer = yes ? Truth::Answer::yes : Truth::Answer::no;
  return result;
}

Truth Interpreter::compare_numbers(const Token& left, const std::string& operation,
                                   const Token& right, Tokens& tokens) {
  Truth result = truth(false);
  Number numbers[2];
  const Token* const operands[] = {&left, &right};
  for (int i = 0; i < 2; ++i) {
    const Text text = emptied(operands[i]->text, result);
    const bool counts_arguments =
        operands[i]->text.only_unknown() >= 0 &&
        reading_.unknowns[static_cast<std::size_t>(operands[i]->text.only_unknown())].name == "#";
    if (text.empty() && !tokens.is_double && !counts_arguments) return result;  // an error of `[`
    const bool is_expression =
        tokens.is_double ||
        std::all_of(text.characters().begin(), text.characters().end(), [](char c) {
          return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == ' ';
        });
    if (!text.is_known()) {
      numbers[i].unknowns = text.unknowns();
    } else if (!is_expression) {
      return result;
    } else {
      numbers[i] = number_of(text, tokens.place, *tokens.state);
    }
  }
  std::vector<int> unknowns = numbers[0].unknowns;
  for (const int unknown : numbers[1].unknowns) unknowns.push_back(unknown);
  if (!unknowns.empty()) return unknown_for(std::move(unknowns));
  const bool yes = holds(numbers[0].value, operation, numbers[1].value);
  result.answer = yes ? Truth::Answer::yes : Truth::Answer::no;
  return result;
}

}  // namespace stagecraft::shell
