// What AMD's tools print of one machine, for `import topo`.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profiles/launcher_labels.hpp"
#include "profiles/machine.hpp"

namespace stagecraft {

/// What the tools tell, in whatever form.
struct AmdTopologyTables {
  using Matrix = std::vector<std::vector<std::string>>;  ///< by device and device

  std::vector<std::string> devices;     ///< "GPU0", or the bus and slot
  Matrix types;                         ///< "XGMI", "PCIE"
  Matrix hops, bandwidths;              ///< "1", "50000-100000" (MB/s); empty where not told
  std::vector<int> lines;               ///< of each row of `types`; empty where it has none
  std::vector<std::string> numa_nodes;  ///< may be empty
};

/// Whether lines are of `rocm-smi --showtopo` or `amd-smi topology`: they have a table of link
/// types.
bool is_amd_topology(const std::vector<PlainLine>& lines);
/// Throws Error (input) with file and line.
AmdTopologyTables read_amd_topology(const std::vector<PlainLine>& lines, const std::string& file);

/// The same of their JSON (--json).
bool is_amd_topology_json(std::string_view content);
AmdTopologyTables read_amd_topology_json(std::string_view content, const std::string& file);

/// Throws Error (input) for links of no known type, pairs that differ by direction, and kinds that
/// are not AMD's.
Machine machine_of(const AmdTopologyTables& tables, const std::string& file,
                   const std::string& device);

}  // namespace stagecraft
