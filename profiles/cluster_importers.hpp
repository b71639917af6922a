// Machines of others as clusters. To add a format: write importers/NAME.cpp, declare its two
// functions here, add a row.

#pragma once

#include <array>
#include <string>
#include <string_view>

#include "profiles/machine.hpp"

namespace stagecraft {

struct ClusterImporter {
  std::string_view name;  ///< as in `stagecraft import NAME FILE`
  bool (*recognise)(std::string_view content);
  /// `device` is a kind, or empty where the file must say it. Throws Error (input) with file and
  /// line.
  Machine (*import)(std::string_view content, const std::string& file, const std::string& device);
  std::string_view summary;
};

bool looks_like_topo(std::string_view content);
Machine import_topo(std::string_view content, const std::string& file, const std::string& device);
bool looks_like_nccl_topology(std::string_view content);
Machine import_nccl_topology(std::string_view content, const std::string& file,
                             const std::string& device);

inline constexpr std::array cluster_importers{
    ClusterImporter{
        "topo", looks_like_topo, import_topo,
        "what `nvidia-smi topo -m`, `rocm-smi --showtopo` or `amd-smi topology` print, of "
        "AMD's also with --json: NVLinks or xGMI, PCIe paths, network ports and NUMA nodes of one "
        "machine; "
        "--device says the kind"},
    ClusterImporter{"nccl-topology", looks_like_nccl_topology, import_nccl_topology,
                    "the XML that NCCL or RCCL write to NCCL_TOPO_DUMP_FILE, with speeds, or that "
                    "clouds give them as NCCL_TOPO_FILE"},
};

}  // namespace stagecraft
