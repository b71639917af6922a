// Files that gzip compressed: traces of PyTorch's profiler usually are.

#pragma once

#include <string>
#include <string_view>

#include "profiles/units.hpp"

namespace stagecraft {

/// The decompressed content of gzip data; other bytes are returned unchanged. `file` is the name in
/// errors, `most` the maximum size of the content. Throws Error (input) for data that is truncated,
/// damaged or too large, or compressed by another program (zstd, xz, bzip2).
std::string inflated(std::string bytes, const std::string& file, Bytes most);

/// "trace" of "run/trace.json" and of "run/trace.json.gz".
std::string stem_of_content(std::string_view file);

}  // namespace stagecraft
