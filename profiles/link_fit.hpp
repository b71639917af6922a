// Links from measurements of collectives: what nccl-tests prints, and the latency and bandwidth
// that explain it best.

#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/collectives.hpp"

namespace stagecraft {

/// The collective that a program of nccl-tests (or RCCL-tests) measures.
enum class MeasuredOperation {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  reduce,
  gather,        ///< to one rank, messages from all others at once
  scatter,       ///< from one rank
  send_receive,  ///< each rank to the next one
  hypercube,     ///< an all-gather in log2 n exchanges
};
struct MeasuringProgram {
  std::string_view program;
  MeasuredOperation operation;
  std::string_view name;
  std::string_view remark = {};  ///< what it does besides; empty: nothing
};
inline constexpr std::array measuring_programs{
    MeasuringProgram{"all_reduce_perf", MeasuredOperation::all_reduce, "all-reduce"},
    MeasuringProgram{"reduce_scatter_perf", MeasuredOperation::reduce_scatter, "reduce-scatter"},
    MeasuringProgram{"all_gather_perf", MeasuredOperation::all_gather, "all-gather"},
    MeasuringProgram{"alltoall_perf", MeasuredOperation::all_to_all, "all-to-all"},
    MeasuringProgram{"broadcast_perf", MeasuredOperation::broadcast, "broadcast"},
    MeasuringProgram{"reduce_perf", MeasuredOperation::reduce, "reduce"},
    MeasuringProgram{"gather_perf", MeasuredOperation::gather, "gather"},
    MeasuringProgram{"scatter_perf", MeasuredOperation::scatter, "scatter"},
    MeasuringProgram{"sendrecv_perf", MeasuredOperation::send_receive, "point to point"},
    MeasuringProgram{"hypercube_perf", MeasuredOperation::hypercube, "hypercube"},
    MeasuringProgram{"all_reduce_bias_perf", MeasuredOperation::all_reduce, "all-reduce",
                     "adds a bias to its sums: its times are taken as those of all_reduce_perf"},
};
std::string_view to_string(MeasuredOperation operation);
/// Whether it is made of messages between pairs, so that its times tell `Link::point_to_point`;
/// the others tell `Link::collective`.
bool is_of_messages(MeasuredOperation operation);

/// One line of nccl-tests.
struct MeasuredCollective {
  int line = 0;
  Bytes bytes = 0;          ///< as nccl-tests and collectives.hpp count them
  double out_of_place = 0;  ///< seconds; 0 where it was not measured
  double in_place = 0;      ///< seconds; 0 where it was not measured
};

/// The output of one run of one program, as text (through any launcher) or from its JSON file.
struct CollectiveLog {
  MeasuredOperation operation = MeasuredOperation::all_reduce;
  std::string device;              ///< as the vendor calls it: "NVIDIA A100-SXM4-80GB"
  std::vector<std::string> hosts;  ///< of each rank
  std::vector<MeasuredCollective> rows;
  std::vector<std::string> notes;  ///< assumptions about properties that the output leaves open
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
struct LevelFit {
  int level = 0;  ///< of the cluster
  Link before, after;
  double latency = 0, latency_interval = 0;      ///< seconds of a hop
  double bandwidth = 0, bandwidth_interval = 0;  ///< bytes per second of a port
  /// Whether the level's bandwidth limits any of the times; where it does not, it stays.
  bool limits = true;
};

/// All levels that the ranks cross.
struct LinkFit {
  std::vector<LevelFit> levels;            ///< outermost first
  bool of_messages = false;                ///< the bandwidths are point to point, else collective
  double mean_error = 0, worst_error = 0;  ///< fractions, over all rows
  Bytes worst_bytes = 0;
  double held_out_error = 0;  ///< mean over the rows left out of a fit on every fourth
  int held_out = 0;           ///< so many
};

/// Fits latency and bandwidth of the levels that the first ranks of the cluster cross. Throws Error
/// (input) without two ranks and three times, and where the best fit explains nothing: it misses
/// by half on average, or needs links that are faster than the devices' memory.
LinkFit fit_link(const CollectiveLog& log, const Cluster& cluster, const std::string& file);

}  // namespace stagecraft
