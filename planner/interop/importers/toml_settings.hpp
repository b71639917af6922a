// The settings of a TOML file: each key that has a value, with the tables that it stands in.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "profiles/error.hpp"

namespace stagecraft {

/// A value of a kind that is read here; a value of another kind (a date, a list of numbers) has
/// only its text.
using TomlValue = std::variant<std::monostate, bool, std::int64_t, double, std::string,
                               std::vector<std::string>, std::vector<std::vector<std::string>>>;

struct TomlSetting {
  std::string path;  ///< "parallelism.tensor_parallel_degree"
  TomlValue value;
  std::string text;  ///< the value as TOML writes it, in one line
  SourcePlace place;
};

/// In the file's order. Tables in lists count as their list's. Throws Error (input) with the place
/// of what is no TOML.
std::vector<TomlSetting> read_toml_settings(std::string_view content, const std::string& file);

}  // namespace stagecraft
