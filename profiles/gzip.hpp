// Files that gzip compressed: traces of PyTorch's profiler usually are.

#pragma once

#include <string>
#include <string_view>

#include "profiles/units.hpp"

namespace stagecraft {

/// What the bytes hold, if gzip made them; else the bytes. `file` is what errors call it, `most`
/// how long the content may become. Throws Error (input) for files that are cut short or damaged,
/// that hold more, or that another program compressed (zstd, xz, bzip2).
std::string inflated(std::string bytes, const std::string& file, Bytes most);

/// "trace" of "run/trace.json" and of "run/trace.json.gz".
std::string stem_of_content(std::string_view file);

}  // namespace stagecraft
