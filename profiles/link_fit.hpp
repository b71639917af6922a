// Links from measurements of collectives: what nccl-tests prints, and the latency and bandwidth
// that explain it best.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profiles/collectives.hpp"

namespace stagecraft {

/// One line of nccl-tests.
struct MeasuredCollective {
  int line = 0;
  Bytes bytes = 0;          ///< as collectives.hpp counts them
  double out_of_place = 0;  ///< seconds
  double in_place = 0;      ///< seconds
};

/// What `all_reduce_perf`, `all_gather_perf`, `reduce_scatter_perf`, `alltoall_perf` or
/// `broadcast_perf` printed.
struct CollectiveLog {
  Collective collective = Collective::all_reduce;
  std::string device;              ///< as the vendor calls it: "NVIDIA A100-SXM4-80GB"
  std::vector<std::string> hosts;  ///< of each rank
  std::vector<MeasuredCollective> rows;
  std::vector<std::string> notes;  ///< what it leaves open and we decided
};

bool looks_like_collective_log(std::string_view content);
/// Throws Error (input) with file and line.
CollectiveLog read_collective_log(std::string_view content, const std::string& file);

/// The cluster that the log ran on: boxes of as many ranks as each host has. Throws Error (input)
/// where hosts have unlike numbers of ranks, or the device is none that is built in and `device`
/// (a kind) is empty.
Cluster cluster_of_log(const CollectiveLog& log, const std::string& device,
                       const std::string& file);

/// A level's link as the measurements have it, with 95 % intervals.
struct LinkFit {
  int level = 0;  ///< the outermost that the ranks cross
  Link before, after;
  double latency = 0, latency_interval = 0;      ///< seconds of a hop
  double bandwidth = 0, bandwidth_interval = 0;  ///< bytes per second of a port
  double mean_error = 0, worst_error = 0;        ///< fractions, over all rows
  Bytes worst_bytes = 0;
  double held_out_error = 0;  ///< mean over the rows left out of a fit on every fourth
  int held_out = 0;           ///< so many
};

/// Fits the outermost level that the first ranks of the cluster cross; those inside stay. Needs
/// three sizes: throws Error (input) otherwise.
LinkFit fit_link(const CollectiveLog& log, const Cluster& cluster, const std::string& file);

}  // namespace stagecraft
