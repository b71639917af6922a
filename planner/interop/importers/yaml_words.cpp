#include "planner/interop/importers/yaml_words.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>

#include "planner/interop/importers/script_folder.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// Anchors may be used any number of times, inside each other.
constexpr int most_nodes = 50'000;
constexpr int deepest_yaml = 60;

/// A recipe, or one that it begins with; what it says stands below `mount`.
struct YamlFile {
  YAML::Node root;
  std::string file;
  std::string mount;
};

/// Reads one of several files that together are a recipe; later ones stand over earlier ones, in
/// which they look up what they refer to, too.
class YamlReader {
 public:
  YamlReader(const std::vector<YamlFile>& files, std::size_t which)
      : files_(files),
        root_(files[which].root),
        file_(files[which].file),
        mount_(files[which].mount) {}

  std::vector<FlagWord> read() {
    members(root_, mount_, 0);
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

  /// Of all that is looked at, however deep it is and however often it is referred to.
  void count(const YAML::Node& node, int depth) {
    if (depth > deepest_yaml) fail_at(node, "the YAML is nested too deeply");
    if (++nodes_ > most_nodes)
      fail_at(node, concat("the YAML unfolds to more than ", most_nodes, " values"));
  }

  void members(const YAML::Node& node, const std::string& section, int depth) {
    count(node, depth);
    if (node.IsSequence()) {
      for (const YAML::Node& element : node) {
        if (element.IsMap()) members(element, section, depth + 1);
      }
      return;
    }
    if (!node.IsMap()) return;
    for (const auto& member : node) {
      count(node, depth);
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
    count(from, depth);
    if (from.IsSequence()) {
      for (const YAML::Node& one : from) merge(one, into, section, depth + 1);
      return;
    }
    if (!from.IsMap()) fail_at(from, "what is merged with \"<<\" is no mapping");
    for (const auto& member : from) {
      count(from, depth);
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
    if (key == "defaults" && section == mount_ && !node.IsMap()) return;  // read by then
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
    count(node, depth);
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
    count(root_, 0);
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
      word.missing.push_back(
          {.name = text, .expression = text, .place = word.place, .setting = setting_of(word)});
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
    for (auto file = files_.rbegin(); file != files_.rend(); ++file) {
      const std::vector<std::string> mount =
          file->mount.empty() ? std::vector<std::string>{} : split(file->mount, '.');
      if (mount.size() > names.size() || !std::equal(mount.begin(), mount.end(), names.begin()))
        continue;
      const auto below = names.begin() + static_cast<std::ptrdiff_t>(mount.size());
      if (auto found = scalar_in(file->root, {below, names.end()})) return found;
    }
    return {};
  }

  static std::optional<std::string> scalar_in(const YAML::Node& root,
                                              const std::vector<std::string>& names) {
    // Not by assignment, which would change what a node stands for; nor by a lookup that adds a
    // key.
    std::vector<YAML::Node> seen{root};
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

  const std::vector<YamlFile>& files_;
  const YAML::Node root_;
  const std::string& file_;
  const std::string& mount_;
  std::vector<FlagWord> words_;
  int nodes_ = 0;
};

/// The result of `read`, whose faults are of this file.
auto of_yaml(const std::string& file, const auto& read) {
  try {
    return read();
  } catch (const YAML::Exception& error) {
    throw Error(ErrorKind::input, concat("no YAML: ", error.msg),
                SourcePlace{file, error.mark.line + 1, error.mark.column + 1});
  }
}

/// Of a list of defaults: the file, without its ending, and below which key it stands.
struct RecipeDefault {
  std::string path;
  std::string mount;
  int line = 0;
  bool is_self = false;
  bool is_global = false;  ///< below no key, whatever the recipe stands below
};

/// `defaults: base.yaml`, as NeMo RL has it; `- folder/base@_here_` and `- group: choice`, as Hydra
/// has them.
std::vector<RecipeDefault> defaults_of(const YAML::Node& root) {
  if (!root.IsMap()) return {};
  const YAML::Node said = root["defaults"];
  if (!said.IsDefined()) return {};
  std::vector<RecipeDefault> defaults;
  const auto add = [&](const YAML::Node& node, std::string path, std::string mount) {
    const std::size_t at = path.find('@');
    const std::string where = at == std::string::npos ? "" : path.substr(at + 1);
    if (at != std::string::npos) {
      mount = where == "_here_" || where == "_global_" ? "" : where;
      path.resize(at);
    }
    defaults.push_back({path, mount, node.Mark().line + 1, path == "_self_", where == "_global_"});
  };
  const auto add_one = [&](const YAML::Node& node) {
    if (node.IsScalar()) return add(node, node.Scalar(), "");
    if (!node.IsMap()) return;
    for (const auto& member : node) {
      std::string group = member.first.IsScalar() ? member.first.Scalar() : "";
      for (const std::string_view word : {"optional ", "override "})
        if (group.starts_with(word)) group.erase(0, word.size());
      if (member.second.IsScalar() && member.second.Scalar() != "null" &&
          !group.starts_with("hydra"))
        add(node, group + "/" + member.second.Scalar(), group);
    }
  };
  if (said.IsSequence()) {
    for (const YAML::Node& one : said) add_one(one);
  } else {
    add_one(said);
  }
  return defaults;
}

/// A recipe with all that it begins with, in ascending order of what stands over what.
class RecipeFiles {
 public:
  RecipeFiles(std::vector<OtherFile>& others, std::vector<std::string>& notes)
      : others_(others), notes_(notes) {}

  void add(std::string_view content, const std::string& file, const std::string& mount, int depth) {
    constexpr int deepest = 10;
    constexpr std::size_t most = 50;
    if (depth > deepest || files_.size() >= most) {
      throw Error(ErrorKind::input,
                  depth > deepest ? concat("recipes begin with each other more than ", deepest,
                                           " deep; does one begin with itself?")
                                  : concat("more than ", most, " recipes together are one"),
                  SourcePlace{file, 1, 1});
    }
    const YAML::Node root = of_yaml(file, [&] { return YAML::Load(std::string(content)); });
    bool has_self = false;
    for (const RecipeDefault& one : defaults_of(root)) {
      if (one.is_self) {
        has_self = true;
        files_.push_back({root, file, mount});
      } else {
        add_default(one, file, mount, depth);
      }
    }
    if (!has_self) files_.push_back({root, file, mount});
  }

  const std::vector<YamlFile>& files() const { return files_; }

 private:
  void add_default(const RecipeDefault& one, const std::string& file, const std::string& mount,
                   int depth) {
    const bool is_below = !mount.empty() && !one.mount.empty();
    const std::string below = one.is_global ? one.mount
                              : is_below    ? mount + "." + one.mount
                                            : mount + one.mount;
    const std::filesystem::path folder = std::filesystem::path(file).parent_path();
    for (const char* ending : {"", ".yaml", ".yml"}) {
      // A slash in front is the root of all recipes.
      const std::string path =
          one.path.substr(std::min(one.path.find_first_not_of('/'), one.path.size()));
      const bool is_of_root = path.size() < one.path.size();
      for (const auto& place : is_of_root ? folders_above(folder) : std::vector{folder}) {
        std::optional<OtherFile> other = read_other_file(place / (path + ending));
        if (!other) continue;
        others_.push_back(*other);
        return add(other->content, other->path, below, depth + 1);
      }
    }
    notes_.push_back(concat(file, ":", one.line, ": the recipe begins with ", one.path,
                            ", which is not beside it; what that file sets is not in the plan"));
  }

  std::vector<YamlFile> files_;
  std::vector<OtherFile>& others_;
  std::vector<std::string>& notes_;
};

/// The words' values, each below the keys of its section.
YAML::Node tree_of(const std::vector<FlagWord>& words) {
  YAML::Node root(YAML::NodeType::Map);
  for (const FlagWord& word : words) {
    if (!word.missing.empty()) continue;
    std::string name = word.name;
    std::replace(name.begin(), name.end(), '-', '_');
    YAML::Node node = root;
    for (const std::string& part : split(word.section, '.')) {
      if (part.empty()) continue;
      if (node[part].IsDefined() && !node[part].IsMap()) node[part] = YAML::Node();
      const YAML::Node below = node[part];
      node.reset(below);
    }
    if (!node[name].IsMap()) node[name] = word.value.value_or("true");
  }
  return root;
}

}  // namespace

std::vector<FlagWord> read_yaml_words(std::string_view content, const std::string& file,
                                      std::vector<OtherFile>& others,
                                      std::vector<std::string>& notes,
                                      const std::vector<FlagWord>& over) {
  RecipeFiles recipe(others, notes);
  recipe.add(content, file, "", 0);
  std::vector<YamlFile> files = recipe.files();
  files.push_back({tree_of(over), "", ""});
  std::vector<FlagWord> words;
  for (std::size_t which = 0; which + 1 < files.size(); ++which) {
    const std::vector<FlagWord> own =
        of_yaml(files[which].file, [&] { return YamlReader(files, which).read(); });
    std::set<std::pair<std::string, std::string>> said;
    for (const FlagWord& word : own) said.insert({word.section, word.name});
    std::erase_if(words, [&](const FlagWord& word) {
      return said.contains({word.section, word.name});
    });
    words.insert(words.end(), own.begin(), own.end());
  }
  return words;
}

}  // namespace stagecraft
