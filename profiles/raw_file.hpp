// Files whose bytes are taken as they are.

#pragma once

#include <filesystem>
#include <string>

namespace stagecraft {

/// Reads a file as bytes, "-" is standard input; `read_file` (json.hpp) inflates besides. Throws
/// Error (input) naming the path.
std::string read_raw_file(const std::filesystem::path& path);

}  // namespace stagecraft
