#include "profiles/launcher_labels.hpp"

#include <algorithm>
#include <array>
#include <optional>
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
bool take_time(std::string_view& text) {
  const auto matches = [](std::string_view word, std::string_view pattern) {
    if (word.size() < pattern.size()) return false;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      if (pattern[i] == '0' ? !is_decimal(word[i]) : word[i] != pattern[i]) return false;
    }
    return true;
  };
  const std::string_view line = without_blanks(text);
  const bool joined = matches(line, "0000-00-00T00:00:00");
  if (!joined && !matches(line, "0000-00-00 00:00:00")) return false;
  const std::size_t end = line.find(' ', joined ? 0 : 11);
  text = end == std::string_view::npos ? std::string_view{} : line.substr(end + 1);
  return true;
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

/// "(all_reduce pid=71, ip=10.0.0.2) " or "(head, rank=0, pid=71) ".
bool take_process(std::string_view& text, std::string& label) {
  constexpr std::string_view names_process = "pid=";
  const std::string_view line = without_blanks(text);
  const std::size_t end = line.find(')');
  if (!line.starts_with('(') || end == std::string_view::npos) return false;
  const std::string_view inside = line.substr(1, end - 1);
  const std::size_t process = inside.find(names_process);
  if (process == std::string_view::npos) return false;
  const std::string_view number = inside.substr(process + names_process.size());
  if (number.empty() || !is_decimal(number.front())) return false;
  label = std::string(inside);
  text = line.substr(end + 1);
  if (text.starts_with(' ')) text.remove_prefix(1);
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

/// "GPU0", "GPU13".
bool is_device_word(std::string_view line) {
  return line.starts_with("GPU") && line.size() > 3 && is_decimal(line[3]);
}

/// A label that stands bare before the text.
struct BareLabel {
  std::string_view name;
  std::size_t length = 0;  ///< with its sign and blanks; 0: there is none
};

/// "node7: ", "worker-1  | " of a container, "pod container: ", or "pod container " of one.
BareLabel bare_label(std::string_view line) {
  const auto skip_blanks = [&](std::size_t at) {
    while (at < line.size() && is_space_or_tab(line[at])) ++at;
    return at;
  };
  const std::size_t first = name_length(line);
  if (first == 0 || is_device_word(line)) return {};
  if (first < line.size() && line[first] == ':') return {line.substr(0, first), first + 1};
  const std::size_t next = skip_blanks(first);
  if (next < line.size() && line[next] == '|') return {line.substr(0, first), next + 1};
  const std::size_t second = next > first ? name_length(line.substr(next)) : 0;
  if (second == 0) return {};
  const std::size_t end = next + second;
  const bool is_signed = end < line.size() && line[end] == ':';
  if (!is_signed && end < line.size() && !is_space_or_tab(line[end])) return {};
  return {line.substr(0, end), is_signed ? end + 1 : end};
}

/// Of "node7 | CHANGED | rc=0 >>", or with --one-line "node7 | CHANGED | rc=0 | (stdout) text": the
/// host, and the text.
struct AnsibleLine {
  std::string host;
  std::string text;
};
std::optional<AnsibleLine> ansible_line(std::string_view line) {
  constexpr std::array<std::string_view, 3> states{"CHANGED", "SUCCESS", "FAILED"};
  constexpr std::string_view code = " | rc=", text_follows = " >>", text_here = " | (stdout) ";
  const std::size_t name = name_length(line);
  if (name == 0 || !line.substr(name).starts_with(" | ")) return {};
  std::string_view rest = line.substr(name + 3);
  const auto* const state =
      std::ranges::find_if(states, [&](std::string_view each) { return rest.starts_with(each); });
  if (state == states.end()) return {};
  rest.remove_prefix(state->size());
  if (!rest.starts_with(code)) return {};
  rest.remove_prefix(code.size());
  while (!rest.empty() && (is_decimal(rest.front()) || rest.front() == '-')) rest.remove_prefix(1);
  AnsibleLine found{.host = std::string(line.substr(0, name)), .text = {}};
  if (rest.starts_with(text_follows)) return found;
  if (!rest.starts_with(text_here)) return {};
  found.text = std::string(rest.substr(text_here.size()));
  return found;
}

/// Lines that were joined by a backslash and an n.
std::vector<std::string> split_joined(std::string_view text) {
  std::vector<std::string> lines;
  for (;;) {
    const std::size_t end = text.find("\\n");
    lines.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 2);
  }
}

/// What tools print at the front of a line by themselves.
bool begins_as_tools_do(std::string_view text) {
  constexpr std::array<std::string_view, 4> fronts{"#", "GPU[", "=====", "LINK TYPE TABLE"};
  const std::string_view line = without_blanks(text);
  return is_device_word(line) || std::ranges::any_of(fronts, [&](std::string_view front) {
           return line.starts_with(front);
         });
}

}  // namespace

std::vector<PlainLine> lines_without_labels(std::string_view content) {
  std::vector<PlainLine> lines;
  std::set<std::string, std::less<>> hosts;
  int number = 0;
  std::string ansible_host;
  const auto add = [&](std::string_view text) {
    while (text.starts_with("> ")) text.remove_prefix(2);  // of a quotation in an issue
    PlainLine line{.number = number, .label = {}, .text = {}};
    while (take_time(text) || take_brackets(text, line.label) || take_process(text, line.label)) {
    }
    if (line.label.empty()) take_task(text, line.label);
    const BareLabel label = bare_label(text);
    if (label.length > 0 && begins_as_tools_do(text.substr(label.length)))
      hosts.emplace(label.name);
    if (line.label.empty()) line.label = ansible_host;
    line.text = std::string(text);
    lines.push_back(std::move(line));
  };
  for (const std::string& raw : split(content, '\n')) {
    ++number;
    const std::string plain = without_escapes(raw);
    const std::optional<AnsibleLine> ansible = ansible_line(plain);
    if (!ansible) {
      add(plain);
      continue;
    }
    ansible_host = ansible->host;
    for (const std::string& line : split_joined(ansible->text)) add(line);
  }
  if (hosts.empty()) return lines;
  for (PlainLine& line : lines) {
    const BareLabel label = bare_label(line.text);
    if (label.length == 0 || !hosts.contains(label.name)) continue;
    line.label = std::string(label.name);
    line.text = line.text.substr(label.length);
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
