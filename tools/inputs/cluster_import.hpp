// Imports that give a cluster: what a machine's tools say of its links, and measured collectives.

#pragma once

#include <string>
#include <vector>

namespace stagecraft {

class Console;

struct ClusterImport {
  std::string format, file;
  std::string device;   ///< kind, where the file does not say it; else empty
  std::string cluster;  ///< of measured collectives: CLUSTER they were measured on; else empty
};

/// Whether such a format gives a cluster.
bool imports_cluster(const std::string& format);
/// Formats with what they are, for help texts and errors.
std::string cluster_import_summaries();
std::vector<std::string> cluster_import_names();

/// Prints what was found; -o takes the cluster.
int import_cluster(Console& console, const ClusterImport& import);

}  // namespace stagecraft
