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
///
/// A recipe may begin with others (`defaults`), which are read beside it, and go into `others`; one
/// that is not there gets a note. `over` is what stands over all of them, as a command line has it:
/// references look there first, and its own words are not among the result.
std::vector<FlagWord> read_yaml_words(std::string_view content, const std::string& file,
                                      std::vector<OtherFile>& others,
                                      std::vector<std::string>& notes,
                                      const std::vector<FlagWord>& over = {});

}  // namespace stagecraft
