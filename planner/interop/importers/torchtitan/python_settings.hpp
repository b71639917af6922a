// The settings of a configuration in Python, as torchtitan reads it since 0.3.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/interop/importers/toml_settings.hpp"

namespace stagecraft {

/// Whether it is a module that configures torchtitan.
bool looks_like_titan_python(std::string_view content);

/// What the function sets, by the paths that torchtitan's TOML had: "parallelism.…", "training.…",
/// "activation_checkpoint.mode", "model.name" and "model.flavor"; and "order", a dictionary, which
/// our exporter writes. The file is read, never run: values are literals, or names of those of the
/// module. `function` empty: the only one there is. Throws Error (input) for a file with several,
/// or without the one that is meant.
std::vector<TomlSetting> read_titan_python(std::string_view content, const std::string& file,
                                           std::string_view function = "");

}  // namespace stagecraft
