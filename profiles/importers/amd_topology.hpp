// What AMD's tools print of one machine, for `import topo`.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profiles/launcher_labels.hpp"
#include "profiles/machine.hpp"

namespace stagecraft {

/// Whether lines are of `rocm-smi --showtopo` or `amd-smi topology`: they have a table of link
/// types.
bool is_amd_topology(const std::vector<PlainLine>& lines);

/// The machine of these lines. Throws Error (input) with file and line.
Machine read_amd_topology(const std::vector<PlainLine>& lines, const std::string& file,
                          const std::string& device);

}  // namespace stagecraft
