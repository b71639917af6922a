// What torchtitan's own configurations set, where a launch or a module of a user names one.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/interop/importers/toml_settings.hpp"

namespace stagecraft {

/// The settings of a function of torchtitan 0.3's config_registry modules, at that place; none if
/// it is not known. Names alone tell the modules apart.
std::vector<TomlSetting> titan_registry(std::string_view function, const SourcePlace& place);

/// Those functions, for a sentence.
std::string titan_registry_in_words();

}  // namespace stagecraft
