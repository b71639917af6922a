#include "planner/interop/importers/shell/arithmetic.hpp"

#include <algorithm>
#include <array>

#include "planner/interop/importers/shell/syntax.hpp"
#include "planner/interop/importers/shell/text.hpp"
#include "profiles/error.hpp"

namespace stagecraft::shell {

namespace {

std::int64_t wrapped(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  std::uint64_t result = 1;
  std::uint64_t factor = static_cast<std::uint64_t>(base);
  for (std::uint64_t left = static_cast<std::uint64_t>(std::max<std::int64_t>(exponent, 0));
       left > 0; left /= 2) {
    if (left % 2 == 1) result *= factor;
    factor *= factor;
  }
  return wrapped(result);
}

struct Operator {
  std::string_view word;
  int level;  ///< binds the tighter the higher
};
/// Longer ones first, where one begins with another.
constexpr std::array operators{
    Operator{"**", 11}, Operator{"<<", 8}, Operator{">>", 8}, Operator{"<=", 7}, Operator{">=", 7},
    Operator{"==", 6},  Operator{"!=", 6}, Operator{"&&", 2}, Operator{"||", 1}, Operator{"*", 10},
    Operator{"/", 10},  Operator{"%", 10}, Operator{"+", 9},  Operator{"-", 9},  Operator{"<", 7},
    Operator{">", 7},   Operator{"&", 5},  Operator{"^", 4},  Operator{"|", 3}};

class Evaluator {
 public:
  Evaluator(std::string_view text, const NumberVariables& variables)
      : text_(text), variables_(variables) {}

  Number evaluate() {
    skip();
    if (at_ == text_.size()) return {};
    Number result = list();
    if (at_ < text_.size()) fail_here();
    return result;
  }

 private:
  [[noreturn]] void fail_here() const {
    std::string shown;
    for (std::size_t at = 0; at < std::min<std::size_t>(text_.size(), 40); ++at) {
      const auto byte = static_cast<unsigned char>(text_[at]);
      shown += byte >= ' ' && byte < 0x7f ? text_[at] : '?';
    }
    fail("\"", shown, "\" is no arithmetic expression");
  }
  void skip() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    skip();
    return true;
  }

  Number list() {
    Number result = assignment();
    while (take(",")) result = assignment();
    return result;
  }

  std::string name_here() const {
    std::size_t end = at_;
    while (end < text_.size() && is_name(text_.substr(at_, end + 1 - at_))) ++end;
    return std::string(text_.substr(at_, end - at_));
  }

  Number assignment() {
    const std::size_t start = at_;
    const std::string name = name_here();
    if (!name.empty()) {
      at_ += name.size();
      skip();
      constexpr std::array assigning{"+=", "-=", "*=", "/=", "%=", "="};
      for (const std::string_view word : assigning) {
        if (word == "=" && text_.substr(at_, 2) == "==") continue;
        if (!take(word)) continue;
        Number value = assignment();
        if (word != "=") {
          value = apply(operator_of(word.substr(0, 1)), variables_.read(name), value);
        }
        variables_.write(name, value);
        return value;
      }
    }
    at_ = start;
    return conditional();
  }

  static const Operator& operator_of(std::string_view word) {
    return *std::find_if(operators.begin(), operators.end(),
                         [&](const Operator& row) { return row.word == word; });
  }

  Number conditional() {
    Number asked = binary(1);
    if (!take("?")) return asked;
    const Number yes = assignment();
    if (!take(":")) fail_here();
    const Number no = assignment();
    if (!asked.is_known()) return asked;
    return asked.value != 0 ? yes : no;
  }

  Number binary(int level) {
    if (++depth_ > 500) fail("an arithmetic expression is nested too deeply");
    Number left = unary();
    while (true) {
      const Operator* found = nullptr;
      for (const Operator& row : operators) {
        if (found == nullptr && text_.substr(at_, row.word.size()) == row.word) found = &row;
      }
      if (found == nullptr || found->level < level) break;
      take(found->word);
      const Number right = binary(found->word == "**" ? found->level : found->level + 1);
      left = apply(*found, left, right);
    }
    --depth_;
    return left;
  }

  static Number apply(const Operator& row, const Number& left, const Number& right) {
    const bool decides = (row.word == "&&" && left.is_known() && left.value == 0) ||
                         (row.word == "||" && left.is_known() && left.value != 0);
    if (decides) return {.value = left.value != 0 ? 1 : 0, .unknowns = {}};
    if (!left.is_known() || !right.is_known()) {
      Number result{.value = 0, .unknowns = left.unknowns};
      result.unknowns.insert(result.unknowns.end(), right.unknowns.begin(), right.unknowns.end());
      return result;
    }
    return {.value = known(row.word, left.value, right.value), .unknowns = {}};
  }

  static std::int64_t known(std::string_view word, std::int64_t a, std::int64_t b) {
    const auto left = static_cast<std::uint64_t>(a);
    const auto right = static_cast<std::uint64_t>(b);
    if (word == "**") return power(a, b);
    if (word == "*") return wrapped(left * right);
    if (word == "+") return wrapped(left + right);
    if (word == "-") return wrapped(left - right);
    if (word == "/" || word == "%") {
      if (b == 0) fail("the script divides by zero");
      if (b == -1) return word == "/" ? wrapped(0 - left) : 0;
      return word == "/" ? a / b : a % b;
    }
    if (word == "<<") return wrapped(left << (right & 63));
    if (word == ">>") return a >> (right & 63);
    if (word == "<=") return a <= b ? 1 : 0;
    if (word == ">=") return a >= b ? 1 : 0;
    if (word == "==") return a == b ? 1 : 0;
    if (word == "!=") return a != b ? 1 : 0;
    if (word == "<") return a < b ? 1 : 0;
    if (word == ">") return a > b ? 1 : 0;
    if (word == "&&") return a != 0 && b != 0 ? 1 : 0;
    if (word == "||") return a != 0 || b != 0 ? 1 : 0;
    if (word == "&") return wrapped(left & right);
    if (word == "^") return wrapped(left ^ right);
    return wrapped(left | right);
  }

  Number step(const std::string& name, std::int64_t by) {
    Number value = variables_.read(name);
    value.value = wrapped(static_cast<std::uint64_t>(value.value) + static_cast<std::uint64_t>(by));
    variables_.write(name, value);
    return value;
  }

  Number unary() {
    if (++depth_ > 500) fail("an arithmetic expression is nested too deeply");
    Number result = operand();
    --depth_;
    return result;
  }

  Number operand() {
    skip();
    if (text_.substr(at_, 2) == "++" || text_.substr(at_, 2) == "--") {
      const std::int64_t by = text_[at_] == '+' ? 1 : -1;
      const std::size_t start = at_;
      at_ += 2;
      skip();
      const std::string name = name_here();
      if (!name.empty()) {
        at_ += name.size();
        skip();
        return step(name, by);
      }
      at_ = start;
    }
    if (take("+")) return unary();
    if (take("-")) return apply(operator_of("-"), {}, unary());
    if (take("!")) {
      Number value = unary();
      value.value = value.value == 0 ? 1 : 0;
      return value;
    }
    if (take("~")) return apply(operator_of("^"), {.value = -1, .unknowns = {}}, unary());
    if (take("(")) {
      Number value = list();
      if (!take(")")) fail_here();
      return value;
    }
    return value_here();
  }

  Number value_here() {
    if (at_ >= text_.size()) fail_here();
    // A hole makes unknown whatever number it is part of.
    const std::size_t start = at_;
    Number unknown;
    while (at_ < text_.size()) {
      if (text_[at_] == Text::hole_mark) {
        unknown.unknowns.push_back(hole_at(text_, at_));
        at_ += Text::hole_size;
      } else if (is_name_or_digit(text_[at_]) || text_[at_] == '#') {
        ++at_;
      } else {
        break;
      }
    }
    if (at_ == start) fail_here();
    const std::string word(text_.substr(start, at_ - start));
    skip();
    if (!unknown.is_known()) return unknown;
    if (!is_name(word)) return {.value = literal(word), .unknowns = {}};
    if (take("++")) {
      Number before = variables_.read(word);
      step(word, 1);
      return before;
    }
    if (take("--")) {
      Number before = variables_.read(word);
      step(word, -1);
      return before;
    }
    return variables_.read(word);
  }

  static bool is_name_or_digit(char c) {
    return (c >= '0' && c <= '9') || is_name(std::string_view(&c, 1));
  }

  /// 12, 012, 0x1f, 2#101.
  std::int64_t literal(const std::string& word) const {
    std::uint64_t base = 10;
    std::string_view digits = word;
    const std::size_t hash = word.find('#');
    if (hash != std::string::npos) {
      base = 0;
      for (const char c : digits.substr(0, hash)) {
        if (c < '0' || c > '9' || base > 64) fail_here();
        base = base * 10 + static_cast<std::uint64_t>(c - '0');
      }
      if (base < 2 || base > 36) fail_here();
      digits.remove_prefix(hash + 1);
    } else if (digits.starts_with("0x") || digits.starts_with("0X")) {
      base = 16;
      digits.remove_prefix(2);
    } else if (digits.size() > 1 && digits[0] == '0') {
      base = 8;
    }
    std::uint64_t value = 0;
    for (const char c : digits) {
      std::uint64_t digit = 99;
      if (c >= '0' && c <= '9') digit = static_cast<std::uint64_t>(c - '0');
      if (c >= 'a' && c <= 'z') digit = static_cast<std::uint64_t>(c - 'a') + 10;
      if (c >= 'A' && c <= 'Z') digit = static_cast<std::uint64_t>(c - 'A') + 10;
      if (digit >= base) fail_here();
      value = value * base + digit;
    }
    return wrapped(value);
  }

  std::string_view text_;
  const NumberVariables& variables_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Number evaluate_arithmetic(std::string_view expression, const NumberVariables& variables) {
  return Evaluator(expression, variables).evaluate();
}

}  // namespace stagecraft::shell
