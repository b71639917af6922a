// Imports that result in a cluster: from the output of a machine's link tools, and from measured
// collectives.

#pragma once

#include <string>
#include <vector>

namespace stagecraft {

class Console;

struct ClusterImport {
  std::string format, file;
  std::string device;   ///< device kind if the file does not name it; else empty
  std::string cluster;  ///< for measured collectives: the CLUSTER on which they were measured; else
                        ///< empty
};

/// Whether the format results in a cluster.
bool imports_cluster(const std::string& format);
/// The formats with their descriptions, for help texts and errors.
std::string cluster_import_summaries();
std::vector<std::string> cluster_import_names();

/// Imports and prints the cluster, and writes it to -o.
int import_cluster(Console& console, const ClusterImport& import);

}  // namespace stagecraft
