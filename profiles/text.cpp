#include "profiles/text.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions
/// and swaps of neighbours count one each.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last;
  std::vector<std::size_t> last(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::vector<std::size_t> row(b.size() + 1);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::move(last);
    last = std::move(row);
  }
  return last[b.size()];
}

/// "strategies" for "strategy", "schedules" for "schedule".
/// "way to recompute" becomes "ways to recompute".
std::string plural(std::string_view noun) {
  for (const std::string_view word : {" of ", " to "}) {
    const std::size_t at = noun.find(word);
    if (at != std::string_view::npos) return concat(plural(noun.substr(0, at)), noun.substr(at));
  }
  const bool has_vowel = noun.ends_with("ay") || noun.ends_with("ey") || noun.ends_with("oy");
  if (!noun.ends_with('y') || has_vowel) return concat(noun, "s");
  return concat(noun.substr(0, noun.size() - 1), "ies");
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string closest(std::string_view word, const std::vector<std::string>& known) {
  std::size_t best = std::max<std::size_t>(1, (word.size() + 2) / 3) + 1;
  std::string answer;
  const std::string lower = lower_case(word);
  for (const std::string& candidate : known) {
    // Each character that one has more is an edit: a page that somebody gave as a name is not
    // compared with all of them.
    const std::size_t longer = std::max(candidate.size(), word.size());
    if (longer - std::min(candidate.size(), word.size()) >= best) continue;
    const std::size_t away = distance(lower, lower_case(candidate));
    if (away >= best) continue;
    best = away;
    answer = candidate;
  }
  if (!answer.empty() || word.size() < 3) return answer;
  // The family's name alone.
  const auto longer = std::ranges::find_if(known, [&](const std::string& candidate) {
    return lower_case(candidate).starts_with(lower + "-");
  });
  return longer == known.end() ? answer : *longer;
}

void fail_unknown(std::string_view what, std::string_view word,
                  const std::vector<std::string>& known) {
  std::string message = concat("unknown ", what, " \"", word, "\"");
  if (!known.empty()) message += concat("; known ", plural(what), ":");
  for (const std::string& name : known) message += " " + name;
  const std::string suggestion = closest(word, known);
  if (!suggestion.empty()) message += concat("; did you mean \"", suggestion, "\"?");
  throw Error(ErrorKind::usage, message);
}

void fail_choice(std::string_view what, std::string_view word,
                 const std::vector<std::string>& known) {
  fail("unknown ", what, " \"", word, "\"; expected ", join_words(known));
}

std::string join_words(const std::vector<std::string>& words) {
  std::string result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) result += i + 1 == words.size() ? " and " : ", ";
    result += words[i];
  }
  return result;
}

std::string nearest_multiples(int number, int factor) {
  const std::int64_t below = number / factor * std::int64_t{factor};
  return below == 0 ? std::to_string(factor) : concat(below, " or ", below + factor);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (std::size_t start = 0;;) {
    const std::size_t end = text.find(separator, start);
    parts.emplace_back(text.substr(start, end == std::string_view::npos ? end : end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::string trim(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n\v\f";
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(blank) - first + 1));
}

std::string with_thousands_written_out(std::string_view text) {
  constexpr std::int64_t thousand = 1024, most = std::int64_t{1} << 40;
  if (!text.ends_with('k') && !text.ends_with('K')) return std::string(text);
  std::int64_t number = 0;
  const char* const last = text.data() + text.size() - 1;
  const auto [end, error] = std::from_chars(text.data(), last, number);
  const bool is_read = error == std::errc{} && end == last && number >= 0 && number < most;
  return is_read ? std::to_string(number * thousand) : std::string(text);
}

}  // namespace stagecraft
