// Files that a program finds in a folder, rather than being told of them.

#pragma once

#include <filesystem>
#include <string>

namespace stagecraft {

/// All of it. Throws Error (input) unless it is an ordinary file, which is looked at without
/// waiting: a named pipe may have nobody who writes, and a device no end.
std::string read_ordinary_file(const std::filesystem::path& path);

}  // namespace stagecraft
