#include "planner/interop/importers/flag_words.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "profiles/json.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// "--num_layers" and "num_layers" as "num-layers".
std::string plain_name(std::string_view name) {
  while (name.starts_with('-')) name.remove_prefix(1);
  std::string plain(name);
  std::replace(plain.begin(), plain.end(), '_', '-');
  return plain;
}

/// Without quotes around it, or a comment behind it.
std::string plain_value(const std::string& text) {
  std::string value = trim(text);
  const bool is_quoted = !value.empty() && (value.front() == '"' || value.front() == '\'');
  if (!is_quoted) return trim(std::string_view(value).substr(0, value.find(" #")));
  const std::size_t end = value.find(value.front(), 1);
  // Megatron-LM's own recipes quote a quoted layout: "\"Et*7|t*7mL\"".
  std::string inner = value.substr(1, end == std::string::npos ? end : end - 1);
  if (value.starts_with("\"\\\"")) inner = value.substr(3, value.find("\\\"", 3) - 3);
  return inner;
}

/// A switch is "true"; one that is "false" is as good as left out.
void add_word(std::vector<FlagWord>& words, FlagWord word) {
  if (word.value == "false" || word.value == "False") return;
  if (word.value == "true" || word.value == "True") word.value.reset();
  words.push_back(std::move(word));
}

// --- JSON ---

void read_members(const Json& json, const std::string& file, std::vector<FlagWord>& words) {
  for (const std::string& name : json.names()) {
    const Json value = json[name];
    if (value.is_object()) {
      read_members(value, file, words);
      continue;
    }
    if (value.is_null()) continue;
    const std::string text = value.is_string() ? plain_value(value.string()) : value.raw().dump();
    add_word(words, {.name = plain_name(name), .value = text, .place = {file, 0, 0}});
  }
}

// --- YAML, as far as lists of flags go ---

/// As YAML 1.1 has them, which Python's reader does: "on" is true, "no" is false.
std::string plain_switch(const std::string& value) {
  constexpr std::array on{"yes", "Yes", "YES", "on", "On", "ON", "TRUE"};
  constexpr std::array off{"no", "No", "NO", "off", "Off", "OFF", "FALSE"};
  if (std::ranges::count(on, value) > 0) return "true";
  return std::ranges::count(off, value) > 0 ? "false" : value;
}

/// Whether what follows a name without a value is a list, an element a line.
bool begins_list(const std::vector<std::string>& lines, std::size_t number) {
  while (++number < lines.size()) {
    const std::string line = trim(lines[number]);
    if (!line.empty() && !line.starts_with('#')) return line == "-" || line.starts_with("- ");
  }
  return false;
}

/// Where the colon behind a name is, if the line is `NAME: …`.
std::size_t name_end(std::string_view line) {
  const std::size_t start = line.find_first_not_of(" \t");
  if (start == std::string_view::npos) return start;
  std::size_t end = start;
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  while (end < line.size() && is_letter(line[end])) ++end;
  const bool is_name = end > start && end < line.size() && line[end] == ':' &&
                       (end + 1 == line.size() || line[end + 1] == ' ' || line[end + 1] == '\r');
  return is_name ? end : std::string_view::npos;
}

bool looks_like_yaml(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    if (name_end(line) != std::string::npos) return true;
    if (trim(line).starts_with("--")) return false;
  }
  return false;
}

std::vector<FlagWord> read_yaml(const std::vector<std::string>& lines, const std::string& file) {
  std::vector<FlagWord> words;
  for (std::size_t number = 0; number < lines.size(); ++number) {
    const std::string& line = lines[number];
    const std::size_t end = name_end(line);
    if (end == std::string::npos) continue;
    const std::size_t start = line.find_first_not_of(" \t");
    const std::string value = plain_value(line.substr(end + 1));
    FlagWord word{.name = plain_name(std::string_view(line).substr(start, end - start)),
                  .value = plain_switch(value),
                  .place = {file, static_cast<int>(number) + 1, static_cast<int>(end) + 3}};
    word.is_list = value.empty() && begins_list(lines, number);
    if ((value.empty() && !word.is_list) || value == "null" || value == "~") continue;
    add_word(words, std::move(word));
  }
  return words;
}

// --- The shell ---

struct ShellWord {
  std::string text;
  SourcePlace place;
};

/// Splits text into words as a shell would, minding nothing but quotes, comments, escapes and
/// blanks. A bar in a word stays there: layouts have them, and lines out of `ps` no quotes.
class ShellReader {
 public:
  ShellReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::vector<ShellWord> read() {
    while (at_ < text_.size()) read_one();
    finish();
    return std::move(words_);
  }

 private:
  void read_one() {
    const char c = text_[at_];
    if (c == '#' && !inside_) {
      skip_comment();
    } else if (c == '\\' && at_ + 1 < text_.size()) {
      const bool continues = text_[at_ + 1] == '\n';
      advance();
      if (!continues) add(text_[at_]);
      advance();
    } else if (c == '"' || c == '\'') {
      read_quoted(c);
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ';') {
      finish();
      advance();
    } else {
      add(c);
      advance();
    }
  }

  void read_quoted(char quote) {
    const SourcePlace start = here();
    begin();
    advance();
    while (at_ < text_.size() && text_[at_] != quote) {
      if (quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size()) advance();
      add(text_[at_]);
      advance();
    }
    if (at_ == text_.size()) throw Error(ErrorKind::input, "the quotation does not end", start);
    advance();
  }

  void skip_comment() {
    while (at_ < text_.size() && text_[at_] != '\n') advance();
  }

  SourcePlace here() const { return {file_, line_, column_}; }
  void begin() {
    if (!inside_) words_.push_back({"", here()});
    inside_ = true;
  }
  void add(char c) {
    begin();
    words_.back().text += c;
  }
  void finish() { inside_ = false; }
  void advance() {
    const bool ends_line = text_[at_++] == '\n';
    line_ += ends_line ? 1 : 0;
    column_ = ends_line ? 1 : column_ + 1;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1;
  int column_ = 1;
  bool inside_ = false;
  std::vector<ShellWord> words_;
};

/// `ARGS=(--bf16` begins an array, and `--bf16)` ends one.
std::string without_array(std::string word) {
  const std::size_t array = word.find("=(--");
  if (array != std::string::npos) word = word.substr(array + 2);
  const auto opened = std::count(word.begin(), word.end(), '(');
  const auto closed = std::count(word.begin(), word.end(), ')');
  if (closed > opened && word.ends_with(')')) word.pop_back();
  return word;
}

std::vector<FlagWord> read_shell(std::string_view content, const std::string& file) {
  std::vector<FlagWord> flags;
  bool may_take_value = false;
  for (const ShellWord& shell : ShellReader(content, file).read()) {
    const std::string word = without_array(shell.text);
    if (!word.starts_with("--")) {
      if (may_take_value && !word.empty()) {
        flags.back().value = word;
        flags.back().is_next_word = true;
        flags.back().place = shell.place;
      }
      may_take_value = false;
      continue;
    }
    const std::size_t equals = word.find('=');
    flags.push_back({.name = plain_name(std::string_view(word).substr(0, equals)),
                     .value = {},
                     .place = shell.place});
    if (equals != std::string::npos) flags.back().value = word.substr(equals + 1);
    may_take_value = equals == std::string::npos;
  }
  return flags;
}

// --- A log ---

constexpr std::string_view dump_begins = "- arguments -", dump_ends = "- end of arguments -";

/// "[default0]:  num_layers ............ 32"; nothing for other lines.
std::optional<FlagWord> read_argument(std::string_view line) {
  const std::size_t dots = line.find(" .");
  const std::size_t ends =
      dots == std::string_view::npos ? dots : line.find_first_not_of('.', dots + 1);
  if (ends == std::string_view::npos || line[ends] != ' ') return {};
  const std::string before = trim(line.substr(0, dots));
  FlagWord word{.name = plain_name(before.substr(before.find_last_of(" \t:]") + 1)),
                .value = trim(line.substr(ends))};
  word.place.column = static_cast<int>(ends) + 2;
  if (word.name.empty()) return {};
  return word;
}

/// Of two arguments for the chunks of a rank, Megatron-LM computes one of the other.
bool is_derived(const FlagWord& word, const std::vector<FlagWord>& all) {
  return word.name == "virtual-pipeline-model-parallel-size" &&
         std::any_of(all.begin(), all.end(), [](const FlagWord& other) {
           return (other.name == "num-layers-per-virtual-pipeline-stage" ||
                   other.name == "num-virtual-stages-per-pipeline-rank") &&
                  other.value != "None";
         });
}

std::vector<FlagWord> read_log(std::string_view content, const std::string& file) {
  std::vector<FlagWord> words;
  const std::vector<FlagWord> dumped = read_arguments_dump(content, file);
  for (const FlagWord& word : dumped) {
    if (word.value != "None" && !is_derived(word, dumped)) add_word(words, word);
  }
  return words;
}

}  // namespace

bool has_arguments_dump(std::string_view content) {
  return content.find(dump_begins) != std::string_view::npos;
}

std::vector<FlagWord> read_arguments_dump(std::string_view content, const std::string& file) {
  std::vector<FlagWord> words;
  bool inside = false;
  for (int number = 1; !content.empty(); ++number) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    const std::string_view line = content.substr(0, end);
    if (line.find(dump_ends) != std::string_view::npos) break;
    if (line.find(dump_begins) != std::string_view::npos) inside = true;
    if (std::optional<FlagWord> word = read_argument(line); word && inside) {
      word->place.file = file;
      word->place.line = number;
      words.push_back(*std::move(word));
    }
    content.remove_prefix(std::min(end + 1, content.size()));
  }
  return words;
}

std::vector<FlagWord> read_flag_words(std::string_view content, const std::string& file) {
  if (has_arguments_dump(content)) return read_log(content, file);
  if (trim(content).starts_with('{')) {
    std::vector<FlagWord> words;
    read_members(Json::parse(std::string(content), file), file, words);
    return words;
  }
  const std::vector<std::string> lines = split(content, '\n');
  return looks_like_yaml(lines) ? read_yaml(lines, file) : read_shell(content, file);
}

}  // namespace stagecraft
