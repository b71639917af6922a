// JSON Schemas (draft 2020-12) of the files that Stagecraft reads and writes: NAME.schema.json in
// this folder, which CMake makes part of the program (embed.cmake).

#pragma once

#include <span>
#include <string_view>

namespace stagecraft {

struct Schema {
  std::string_view name;     ///< "plan"
  std::string_view format;   ///< "stagecraft-plan/1"
  std::string_view summary;  ///< its title
  std::string_view text;     ///< the whole schema
};

/// All, sorted by name.
std::span<const Schema> schemas();

}  // namespace stagecraft
