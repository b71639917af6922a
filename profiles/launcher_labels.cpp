#include "profiles/launcher_labels.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "profiles/text.hpp"

namespace stagecraft {

namespace {

bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}

bool is_space_or_tab(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_space_or_tab(text.front())) text.remove_prefix(1);
  return text;
}

/// Without the escape sequences that colour and underline: ESC [ … letter.
std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\x1b') {
      plain += text[at];
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == '[') ++at;
    while (at + 1 < text.size()) {
      const char c = text[++at];
      if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) break;
    }
  }
  return plain;
}

/// Of a host's or container's name at the front: its length, 0 if there is none.
std::size_t name_length(std::string_view text) {
  const auto end = std::ranges::find_if_not(text, [](char c) {
    return is_decimal(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-';
  });
  return static_cast<std::size_t>(end - text.begin());
}

/// Takes "2026-11-28T15:04:19.5Z " or "2026-11-28 15:04:19 " from the front.
void take_time(std::string_view& text) {
  const auto matches = [](std::string_view word, std::string_view pattern) {
    if (word.size() < pattern.size()) return false;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      if (pattern[i] == '0' ? !is_decimal(word[i]) : word[i] != pattern[i]) return false;
    }
    return true;
  };
  const std::string_view line = without_blanks(text);
  const bool joined = matches(line, "0000-00-00T00:00:00");
  if (!joined && !matches(line, "0000-00-00 00:00:00")) return;
  const std::size_t end = line.find(' ', joined ? 0 : 11);
  text = end == std::string_view::npos ? std::string_view{} : line.substr(end + 1);
}

/// "[1,0]<stdout>:" or "[0] " or "[default0]:".
bool take_brackets(std::string_view& text, std::string& label) {
  std::string_view line = without_blanks(text);
  if (!line.starts_with('[')) return false;
  const std::size_t end = line.find(']');
  if (end == std::string_view::npos) return false;
  label = std::string(line.substr(1, end - 1));
  line.remove_prefix(end + 1);
  for (const std::string_view stream : {"<stdout>", "<stderr>"}) {
    if (line.starts_with(stream)) line.remove_prefix(stream.size());
  }
  if (line.starts_with(':')) line.remove_prefix(1);
  text = line;
  return true;
}

/// "12: ", the task of srun --label.
bool take_task(std::string_view& text, std::string& label) {
  const std::string_view line = without_blanks(text);
  const auto digits =
      static_cast<std::size_t>(std::ranges::find_if_not(line, is_decimal) - line.begin());
  if (digits == 0 || digits >= line.size() || line[digits] != ':') return false;
  if (digits + 1 < line.size() && !is_space_or_tab(line[digits + 1])) return false;
  label = std::string(line.substr(0, digits));
  text = line.substr(digits + 1);
  return true;
}

/// "node7: ", or "worker-1  | " of a container; the length of the label with its sign.
std::size_t host_label(std::string_view line) {
  const std::size_t name = name_length(line);
  if (name == 0) return 0;
  std::size_t sign = name;
  if (sign < line.size() && line[sign] == ':') return sign + 1;
  while (sign < line.size() && is_space_or_tab(line[sign])) ++sign;
  return sign < line.size() && line[sign] == '|' ? sign + 1 : 0;
}

/// What tools print at the front of a line by themselves.
bool begins_as_tools_do(std::string_view text) {
  constexpr std::array<std::string_view, 5> fronts{"#", "GPU0", "GPU[", "=====", "LINK TYPE TABLE"};
  const std::string_view line = without_blanks(text);
  return std::ranges::any_of(fronts,
                             [&](std::string_view front) { return line.starts_with(front); });
}

}  // namespace

std::vector<PlainLine> lines_without_labels(std::string_view content) {
  std::vector<PlainLine> lines;
  std::set<std::string, std::less<>> hosts;
  for (const std::string& raw : split(content, '\n')) {
    const std::string plain = without_escapes(raw);
    std::string_view text = plain;
    while (text.starts_with("> ")) text.remove_prefix(2);  // of a quotation in an issue
    PlainLine line{.number = static_cast<int>(lines.size()) + 1, .label = {}, .text = {}};
    take_time(text);
    while (take_brackets(text, line.label)) {
    }
    if (line.label.empty()) take_task(text, line.label);
    const std::size_t label = host_label(text);
    if (label > 0 && begins_as_tools_do(text.substr(label)))
      hosts.emplace(text.substr(0, name_length(text)));
    line.text = std::string(text);
    lines.push_back(std::move(line));
  }
  if (hosts.empty()) return lines;
  for (PlainLine& line : lines) {
    const std::string_view text = line.text;
    const std::size_t label = host_label(text);
    const std::string host(text.substr(0, name_length(text)));
    if (label == 0 || !hosts.contains(host)) continue;
    line.text = std::string(text.substr(label));
    line.label = host;
  }
  return lines;
}

std::vector<std::string> labels_of(const std::vector<PlainLine>& lines) {
  std::vector<std::string> labels;
  for (const PlainLine& line : lines) {
    if (std::ranges::find(labels, line.label) == labels.end()) labels.push_back(line.label);
  }
  return labels;
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : line) {
    if (!is_space_or_tab(c)) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

}  // namespace stagecraft
