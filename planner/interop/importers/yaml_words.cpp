#include "planner/interop/importers/yaml_words.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <optional>

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
    FlagWord word{.name = plain_flag_name(key), .place = place_of(node.IsDefined() ? node : name)};
    word.section = section;
    if (node.IsNull()) {
      word.value = "null";
    } else if (node.IsSequence()) {
      word.value = flow(node, 0);
    } else {
      word.value = scalar(node, word);
    }
    word.is_null = word.value == "null" || word.value == "~" || word.value == "None";
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

  /// OmegaConf's interpolations, where the whole value is one: `${model.heads}` from the root, or
  /// from where a launcher mounts the file (`${training.model.heads}`), `${.heads}` from beside it;
  /// `${multiply:a, b}` of NeMo's launcher. What has no value here is left as it stands.
  std::string interpolated(const std::string& text, FlagWord& word, int depth) {
    if (!text.starts_with("${") || !text.ends_with('}') || depth > 10) return text;
    const std::string inside = text.substr(2, text.size() - 3);
    const std::size_t colon = inside.find(':');
    const bool is_plain = inside.find_first_of(",${}") == std::string::npos;
    std::optional<std::string> found;
    if (colon != std::string::npos) {
      found = resolved(inside.substr(0, colon), inside.substr(colon + 1), word, depth);
    } else if (is_plain) {
      found = looked_up(inside, word.section);
    }
    if (found) return interpolated(*found, word, depth + 1);
    if (word.missing.empty())
      word.missing.push_back({.name = text, .expression = text, .place = word.place});
    return text;
  }

  /// The scalar at a path of keys; nothing if there is none.
  std::optional<std::string> looked_up(const std::string& path, const std::string& section) const {
    if (path.starts_with('.')) {
      // One dot is the mapping that the value stands in, each more the one around that.
      const std::size_t dots = path.find_first_not_of('.');
      if (dots == std::string::npos) return {};
      std::vector<std::string> names = split(section, '.');
      if (section.empty()) names.clear();
      if (names.size() + 1 < dots) return {};
      names.resize(names.size() + 1 - dots);
      for (const std::string& name : split(path.substr(dots), '.')) names.push_back(name);
      return scalar_at(names);
    }
    std::vector<std::string> names = split(path, '.');
    const auto found = scalar_at(names);
    if (found || names.size() < 2) return found;
    names.erase(names.begin());
    return scalar_at(names);
  }

  std::optional<std::string> scalar_at(const std::vector<std::string>& names) const {
    // Not by assignment, which would change what a node stands for; nor by a lookup that adds a
    // key.
    std::vector<YAML::Node> seen{root_};
    for (const std::string& name : names) {
      const YAML::Node& last = seen.back();
      if (name.empty() || !last.IsMap()) return {};
      const YAML::Node next = last[name];
      if (!next.IsDefined()) return {};
      seen.push_back(next);
    }
    if (!seen.back().IsScalar()) return {};
    return seen.back().Scalar();
  }

  /// Of products, quotients and defaults of whole numbers.
  std::optional<std::string> resolved(const std::string& name, const std::string& arguments,
                                      FlagWord& word, int depth) {
    std::vector<std::string> values;
    std::string value;
    int braces = 0;
    for (const char c : arguments + ",") {
      braces += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (c != ',' || braces != 0) {
        if (c != ' ' || !value.empty()) value += c;
        continue;
      }
      values.push_back(interpolated(value, word, depth + 1));
      value.clear();
    }
    if (name == "oc.decode" && values.size() == 1) return values[0];
    if (name == "oc.env") {
      if (values.size() == 2) return values[1];
      return {};
    }
    std::int64_t result = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string& text = values[i];
      if (text.empty() || text.size() > 9 ||
          text.find_first_not_of("0123456789") != std::string::npos)
        return {};
      const std::int64_t number = std::stoll(text);
      if (i == 0) {
        result = number;
      } else if (name == "multiply" && number < 1'000'000'000 && result < 1'000'000'000) {
        result *= number;
      } else if (name == "add") {
        result += number;
      } else if ((name == "divide_ceil" || name == "ceil_div") && number > 0) {
        result = (result + number - 1) / number;
      } else if ((name == "divide_floor" || name == "floor_div") && number > 0) {
        result /= number;
      } else {
        return {};
      }
    }
    return std::to_string(result);
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
