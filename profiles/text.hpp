// Small help with words: suggestions for mistyped names, and lists of known ones.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// ASCII letters as small ones.
std::string lower_case(std::string_view text);

/// The known word closest to `word` by Damerau-Levenshtein distance, if it is at most
/// a third of its length (rounded up) away; otherwise empty.
std::string closest(std::string_view word, const std::vector<std::string>& known);

/// Throws `unknown WHAT "word"; known WHATs: a b c …; did you mean "a"?` of kind `usage`.
[[noreturn]] void fail_unknown(std::string_view what, std::string_view word,
                               const std::vector<std::string>& known);

/// "a, b and c".
std::string join_words(const std::vector<std::string>& words);

/// Throws Error (input): `unknown WHAT "word"; expected a, b or c`.
[[noreturn]] void fail_choice(std::string_view what, std::string_view word,
                              const std::vector<std::string>& known);

/// The value whose `to_string` is this word; otherwise fails as `fail_choice`.
template <class Value, std::size_t count>
Value read_choice(std::string_view what, std::string_view word, const Value (&values)[count]) {
  std::vector<std::string> known;
  for (const Value value : values) {
    if (to_string(value) == word) return value;
    known.emplace_back(to_string(value));
  }
  fail_choice(what, word, known);
}

/// As above for a word of the command line: an unknown one is an error of usage.
template <class Value, std::size_t count>
Value read_known(std::string_view what, std::string_view word, const Value (&values)[count]) {
  std::vector<std::string> known;
  for (const Value value : values) {
    if (to_string(value) == word) return value;
    known.emplace_back(to_string(value));
  }
  fail_unknown(what, word, known);
}

/// "8 or 12": the multiples of `factor` next to a number that is none; one, below the first.
std::string nearest_multiples(int number, int factor);

/// Parts of `text` between separators; empty parts are kept, and an empty text has no parts.
std::vector<std::string> split(std::string_view text, char separator);

/// "32k" and "32K" as "32768"; anything else as it is.
std::string with_thousands_written_out(std::string_view text);

/// The text without white space at its ends.
std::string trim(std::string_view text);

}  // namespace stagecraft
