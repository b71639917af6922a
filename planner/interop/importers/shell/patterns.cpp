#include "planner/interop/importers/shell/patterns.hpp"

#include "profiles/error.hpp"

namespace stagecraft::shell {

namespace {

/// Longer texts are not searched: each beginning is compared with the pattern.
constexpr std::size_t longest_searched = 20'000;

void require_short(std::string_view text) {
  if (text.size() > longest_searched)
    fail("a text of more than ", longest_searched, " bytes is searched for a pattern");
}

/// Behind the bracket expression at `at`, and whether it has the character; npos if it is none.
std::size_t bracket(std::string_view pattern, std::size_t at, char c, bool& has) {
  std::size_t next = at + 1;
  const bool negates = next < pattern.size() && (pattern[next] == '!' || pattern[next] == '^');
  if (negates) ++next;
  has = false;
  for (bool first = true; next < pattern.size() && (first || pattern[next] != ']'); first = false) {
    if (pattern.substr(next, 2) == "[:") {
      const std::size_t end = pattern.find(":]", next);
      if (end == std::string_view::npos) return end;
      const std::string_view name = pattern.substr(next + 2, end - next - 2);
      const bool is_digit = c >= '0' && c <= '9';
      const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      const bool is_space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
      has = has || (name == "digit" && is_digit) || (name == "alpha" && is_letter) ||
            (name == "alnum" && (is_digit || is_letter)) || (name == "space" && is_space);
      next = end + 2;
      continue;
    }
    const char low = pattern[next];
    const bool is_range =
        next + 2 < pattern.size() && pattern[next + 1] == '-' && pattern[next + 2] != ']';
    const char high = is_range ? pattern[next + 2] : low;
    has = has || (c >= low && c <= high);
    next += is_range ? 3 : 1;
  }
  if (next >= pattern.size()) return std::string_view::npos;
  has = has != negates;
  return next + 1;
}

/// Behind the part of the pattern at `at` that the character matches; npos if it does not.
std::size_t step(std::string_view pattern, std::size_t at, char c) {
  if (at >= pattern.size()) return std::string_view::npos;
  if (pattern[at] == '?') return at + 1;
  if (pattern[at] == '[') {
    bool has = false;
    const std::size_t next = bracket(pattern, at, c, has);
    if (next != std::string_view::npos) return has ? next : std::string_view::npos;
  }
  if (pattern[at] == '\\' && at + 1 < pattern.size())
    return pattern[at + 1] == c ? at + 2 : std::string_view::npos;
  return pattern[at] == c ? at + 1 : std::string_view::npos;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view text) {
  // The last star takes more whenever what follows it does not match.
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
      continue;
    }
    const std::size_t next = step(pattern, p, text[t]);
    if (next != std::string_view::npos) {
      p = next;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string without_beginning(std::string_view text, std::string_view pattern, bool longest) {
  require_short(text);
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const std::size_t count = longest ? text.size() - i : i;
    if (matches(pattern, text.substr(0, count))) return std::string(text.substr(count));
  }
  return std::string(text);
}

std::string without_end(std::string_view text, std::string_view pattern, bool longest) {
  require_short(text);
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const std::size_t begin = longest ? i : text.size() - i;
    if (matches(pattern, text.substr(begin))) return std::string(text.substr(0, begin));
  }
  return std::string(text);
}

std::string replaced(std::string_view text, std::string_view pattern, std::string_view by,
                     bool all) {
  constexpr std::size_t most = 2'000;
  if (text.size() > most) fail("a text of more than ", most, " bytes is searched for a pattern");
  std::string result;
  bool done = pattern.empty();
  for (std::size_t at = 0; at < text.size();) {
    std::size_t count = done ? 0 : text.size() - at;
    while (count > 0 && !matches(pattern, text.substr(at, count))) --count;
    if (count == 0) {
      result += text[at++];
      continue;
    }
    result += by;
    at += count;
    done = !all;
  }
  return result;
}

}  // namespace stagecraft::shell
