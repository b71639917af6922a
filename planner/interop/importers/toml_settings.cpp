#include "planner/interop/importers/toml_settings.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

namespace stagecraft {

namespace {

std::optional<std::vector<std::string>> words_of(const toml::array& array) {
  std::vector<std::string> words;
  for (const toml::node& element : array) {
    const auto* word = element.as_string();
    if (word == nullptr) return {};
    words.push_back(word->get());
  }
  return words;
}

TomlValue value_of(const toml::array& array) {
  if (auto words = words_of(array)) return *std::move(words);
  std::vector<std::vector<std::string>> lists;
  for (const toml::node& element : array) {
    if (!element.is_array()) return {};
    auto words = words_of(*element.as_array());
    if (!words) return {};
    lists.push_back(*std::move(words));
  }
  return lists;
}

TomlValue value_of(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_integer()) return std::int64_t{value->get()};
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  return node.is_array() ? value_of(*node.as_array()) : TomlValue{};
}

/// A list over several lines becomes one.
std::string text_of(const toml::node& node) {
  if (const auto* value = node.as_floating_point()) return fmt::format("{}", value->get());
  std::ostringstream out;
  if (const auto* array = node.as_array()) {
    out << toml::json_formatter{*array, toml::format_flags::none};
  } else {
    node.visit([&](const auto& value) {
      if constexpr (toml::is_value<decltype(value)>) out << value;
    });
  }
  std::string text;
  for (const char letter : out.str()) {
    const bool is_space = letter == '\n' || letter == '\r' || letter == ' ' || letter == '\t';
    if (!is_space) text += letter;
    if (is_space && !text.empty() && text.back() != ' ') text += ' ';
  }
  return text;
}

bool has_tables(const toml::node& node) {
  const toml::array* array = node.as_array();
  return array != nullptr && !array->empty() &&
         std::all_of(array->begin(), array->end(),
                     [](const auto& each) { return each.is_table(); });
}

class TomlSettings {
 public:
  explicit TomlSettings(const std::string& file) : file_(file) {}

  void add(const toml::table& table, const std::string& section) {
    for (const auto& [key, node] : table) {
      const std::string path =
          section.empty() ? std::string(key.str()) : section + "." + std::string(key.str());
      if (const toml::table* inner = node.as_table()) {
        add(*inner, path);
      } else if (has_tables(node)) {
        for (const toml::node& element : *node.as_array()) add(*element.as_table(), path);
      } else {
        const toml::source_position at = key.source().begin;
        settings_.push_back(
            {.path = path,
             .value = value_of(node),
             .text = text_of(node),
             .place = {file_, static_cast<int>(at.line), static_cast<int>(at.column)}});
      }
    }
  }

  std::vector<TomlSetting> take() {
    std::ranges::stable_sort(settings_, {}, [](const TomlSetting& setting) {
      return std::pair(setting.place.line, setting.place.column);
    });
    return std::move(settings_);
  }

 private:
  const std::string& file_;
  std::vector<TomlSetting> settings_;
};

}  // namespace

std::vector<TomlSetting> read_toml_settings(std::string_view content, const std::string& file) {
  TomlSettings settings(file);
  try {
    settings.add(toml::parse(content, file), "");
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    throw Error(ErrorKind::input, "no TOML: " + std::string(error.description()),
                SourcePlace{file, static_cast<int>(at.line), static_cast<int>(at.column)});
  }
  return settings.take();
}

}  // namespace stagecraft
