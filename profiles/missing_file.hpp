// Files that are not there: what is called nearly so, and what else may stand in their place.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// Throws Error (input) for a file that does not exist: its help is the nearest name in its folder,
/// or that there is no such folder, and then `instead`.
[[noreturn]] void fail_missing(const std::filesystem::path& path,
                               std::vector<std::string> instead = {});

/// The same unless the file exists, or is "-", standard input. Reading it says all else that may be
/// wrong with it.
void require_file(const std::filesystem::path& path, const std::vector<std::string>& instead);

/// A suggestion, `did you mean "gpt2-124m"?`: the name that is closest to the file's name without
/// folder and extension; empty if none is close.
std::string nearest_name(std::string_view file, const std::vector<std::string>& names);

}  // namespace stagecraft
