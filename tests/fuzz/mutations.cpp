#include "tests/fuzz/mutations.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <functional>

namespace stagecraft::tests {
namespace {

using Random = std::mt19937_64;

/// Below `end`; the same on every standard library.
std::size_t draw(Random& random, std::size_t end) {
  return end == 0 ? 0 : static_cast<std::size_t>(random() % end);
}

struct Range {
  std::size_t first = 0, length = 0;
};

/// Mostly short: a byte, a word, a line.
Range draw_range(Random& random, const std::string& text) {
  const std::size_t first = draw(random, text.size() + 1);
  constexpr std::array<std::size_t, 6> longest{1, 2, 8, 32, 200, 5000};
  const std::size_t length = 1 + draw(random, longest[draw(random, longest.size())]);
  return {first, std::min(length, text.size() - first)};
}

/// The digits around some place; nothing if there are none behind it.
Range number_near(Random& random, const std::string& text) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  std::size_t first = draw(random, text.size() + 1);
  while (first < text.size() && !is_digit(text[first])) ++first;
  std::size_t end = first;
  while (end < text.size() && is_digit(text[end])) ++end;
  while (first > 0 && is_digit(text[first - 1])) --first;
  return {first, end - first};
}

constexpr std::array numbers{"0",
                             "-1",
                             "1",
                             "2",
                             "127",
                             "255",
                             "65536",
                             "2147483647",
                             "2147483648",
                             "4294967296",
                             "1000000000000",
                             "9223372036854775807",
                             "9223372036854775808",
                             "18446744073709551616",
                             "1e308",
                             "1e400",
                             "1e-320",
                             "-0.0",
                             "0.1",
                             "nan",
                             "NaN",
                             "Infinity",
                             "99999999999999999999999999999999999999999999"};

constexpr std::array words{"null", "true",  "[]", "{}",     "\"\"", "[[]]", ",",       ":",
                           "\n",   "\r\n",  "\t", "\\",     "\"",   "'",    "$",       "${",
                           "$(",   "`",     "\0", "\x1b[m", "é",    "\xff", "--",      "=",
                           "|",    "<<EOF", "#",  "*",      "&a",   "!!",   "\\u0000", "/../"};

std::string nested(Random& random) {
  constexpr std::array opening{"[", "{\"a\":", "(", "<a>", "$((", "- "};
  const std::string one = opening[draw(random, opening.size())];
  std::string all;
  for (std::size_t left = 1 + draw(random, 3000); left > 0; --left) all += one;
  return all;
}

void change(std::string& text, const std::vector<std::string>& inputs, Random& random) {
  const Range range = draw_range(random, text);
  switch (draw(random, 12)) {
    case 0:
      if (range.first < text.size()) {
        text[range.first] = static_cast<char>(text[range.first] ^ (1 << draw(random, 8)));
      }
      break;
    case 1:
      for (std::size_t i = 0; i < range.length; ++i) {
        text[range.first + i] = static_cast<char>(draw(random, 256));
      }
      break;
    case 2: text.erase(range.first, range.length); break;
    case 3: text.insert(range.first, text.substr(range.first, range.length)); break;
    case 4: {
      const std::string moved = text.substr(range.first, range.length);
      text.erase(range.first, range.length);
      text.insert(draw(random, text.size() + 1), moved);
      break;
    }
    case 5: {
      const std::string& other = inputs[draw(random, inputs.size())];
      const Range of_other = draw_range(random, other);
      text.replace(range.first, range.length, other, of_other.first, of_other.length);
      break;
    }
    case 6:
    case 7:
    case 8: {
      const Range number = number_near(random, text);
      text.replace(number.first, number.length, numbers[draw(random, numbers.size())]);
      break;
    }
    case 9: text.insert(range.first, words[draw(random, words.size())]); break;
    case 10: text.resize(range.first); break;
    default: text.insert(range.first, nested(random)); break;
  }
}

}  // namespace

std::string mutated(const std::vector<std::string>& inputs, Random& random) {
  std::string text = inputs[draw(random, inputs.size())];
  for (std::size_t left = 1 + draw(random, 4); left > 0; --left) change(text, inputs, random);
  return text;
}

}  // namespace stagecraft::tests
