#include "planner/interop/importers/yaml_words.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>

#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// Anchors may be used any number of times, inside each other.
constexpr int most_nodes = 50'000;
constexpr int deepest_yaml = 60;

class YamlReader {
 public:
  YamlReader(const YAML::Node& root, const std::string& file) : root_(root), file_(file) {}

  std::vector<FlagWord> read() {
    members(root_, "", 0);
    return std::move(words_);
  }

 private:
  SourcePlace place_of(const YAML::Node& node) const {
    const YAML::Mark mark = node.Mark();
    return {file_, mark.line + 1, mark.column + 1};
  }
  [[noreturn]] void fail_at(const YAML::Node& node, const std::string& message) const {
    throw Error(ErrorKind::input, message, place_of(node));
  }

  void members(const YAML::Node& node, const std::string& section, int depth) {
    if (depth > deepest_yaml) fail_at(node, "the YAML is nested too deeply");
    if (node.IsSequence()) {
      for (const YAML::Node& element : node) {
        if (element.IsMap()) members(element, section, depth + 1);
      }
      return;
    }
    if (!node.IsMap()) return;
    for (const auto& member : node) {
      if (++nodes_ > most_nodes)
        fail_at(node, concat("the YAML unfolds to more than ", most_nodes, " values"));
      if (!member.first.IsScalar()) continue;
      const std::string key = member.first.Scalar();
      if (key == "<<") {
        merge(member.second, node, section, depth);
        continue;
      }
      value(key, member.first, member.second, section, depth);
    }
  }

  /// `<<: *base` and `<<: [*one, *two]`; the mapping's own keys come first.
  void merge(const YAML::Node& from, const YAML::Node& into, const std::string& section,
             int depth) {
    if (from.IsSequence()) {
      for (const YAML::Node& one : from) merge(one, into, section, depth + 1);
      return;
    }
    if (!from.IsMap()) fail_at(from, "what is merged with \"<<\" is no mapping");
    for (const auto& member : from) {
      if (++nodes_ > most_nodes)
        fail_at(from, concat("the YAML unfolds to more than ", most_nodes, " values"));
      const std::string key = member.first.IsScalar() ? member.first.Scalar() : "";
      if (key == "<<") {
        merge(member.second, into, section, depth + 1);
      } else if (!key.empty() && !into[key]) {
        value(key, member.first, member.second, section, depth + 1);
      }
    }
  }

  void value(const std::string& key, const YAML::Node& name, const YAML::Node& node,
             const std::string& section, int depth) {
    if (node.IsMap() || is_list_of_maps(node)) {
      members(node, section.empty() ? key : section + "." + key, depth + 1);
      return;
    }
    if (node.IsNull()) return;
    FlagWord word{.name = plain_flag_name(key), .place = place_of(node.IsDefined() ? node : name)};
    word.section = section;
    if (node.IsSequence()) {
      word.value = flow(node, 0);
    } else {
      word.value = scalar(node, word);
    }
    if (word.value == "null" || word.value == "~" || word.value == "None") return;
    if (word.value == "true") word.value.reset();
    words_.push_back(std::move(word));
  }

  static bool is_list_of_maps(const YAML::Node& node) {
    return node.IsSequence() && node.size() > 0 && node[0].IsMap();
  }

  std::string flow(const YAML::Node& node, int depth) {
    if (depth > deepest_yaml) fail_at(node, "the YAML is nested too deeply");
    if (++nodes_ > most_nodes)
      fail_at(node, concat("the YAML unfolds to more than ", most_nodes, " values"));
    if (!node.IsSequence()) return node.IsScalar() ? node.Scalar() : "";
    std::string text = "[";
    for (const YAML::Node& element : node) {
      if (text.size() > 1) text += ", ";
      text += flow(element, depth + 1);
      if (text.size() > 100'000) fail_at(node, "the list is too long");
    }
    return text + "]";
  }

  /// As the file means it; `word` learns what it follows from.
  std::string scalar(const YAML::Node& node, FlagWord& word) {
    std::string text = node.Scalar();
    const bool is_quoted = node.Tag() == "!";
    constexpr std::array on{"yes", "Yes", "YES", "on", "On", "ON", "TRUE", "True"};
    constexpr std::array off{"no", "No", "NO", "off", "Off", "OFF", "FALSE", "False"};
    if (!is_quoted && std::ranges::count(on, text) > 0) return "true";
    if (!is_quoted && std::ranges::count(off, text) > 0) return "false";
    // Megatron-LM's own recipes quote a quoted layout: "\"Et*7|t*7mL\"".
    if (text.size() > 1 && text.front() == '"' && text.back() == '"')
      text = text.substr(1, text.size() - 2);
    return interpolated(text, word, 0);
  }

  std::string interpolated(const std::string& text, FlagWord& word, int depth) {
    if (!text.starts_with("${") || !text.ends_with('}') || depth > 10) return text;
    const std::string path = text.substr(2, text.size() - 3);
    const std::vector<std::string> names = split(path, '.');
    YAML::Node node = root_;
    std::vector<YAML::Node> seen{node};
    for (const std::string& name : names) {
      const bool is_plain = !name.empty() && name.find_first_of(":,${}") == std::string::npos;
      if (!is_plain || !seen.back().IsMap() || !seen.back()[name]) {
        word.missing.push_back({.name = text, .expression = text, .place = word.place});
        return text;
      }
      seen.push_back(seen.back()[name]);
    }
    if (!seen.back().IsScalar()) return text;
    return interpolated(seen.back().Scalar(), word, depth + 1);
  }

  const YAML::Node root_;
  const std::string& file_;
  std::vector<FlagWord> words_;
  int nodes_ = 0;
};

}  // namespace

std::vector<FlagWord> read_yaml_words(std::string_view content, const std::string& file) {
  try {
    return YamlReader(YAML::Load(std::string(content)), file).read();
  } catch (const YAML::Exception& error) {
    throw Error(ErrorKind::input, concat("no YAML: ", error.msg),
                SourcePlace{file, error.mark.line + 1, error.mark.column + 1});
  }
}

}  // namespace stagecraft
