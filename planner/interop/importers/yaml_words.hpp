// The flags of a YAML file: those of a launch, or the members of a recipe.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/interop/importers/flag_words.hpp"

namespace stagecraft {

/// Each scalar, or list, that is the value of a key, with the keys above it as its section. Anchors
/// and merge keys (`<<`) are followed, and so is `${section.name}`, as OmegaConf has it; what other
/// `${…}` say is missing. Values as YAML 1.1 has them, which Python's reader does: "on" is true,
/// "no" is false; null says nothing. Throws Error (input) with the place of what is no YAML, of
/// keys that stand twice, and of files that unfold to too much.
std::vector<FlagWord> read_yaml_words(std::string_view content, const std::string& file);

}  // namespace stagecraft
