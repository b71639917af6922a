// The questions of the target benchmarks: functions to be timed, made from a published file and
// some numbers.

#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace stagecraft {

struct Answer {
  double objective = 0;
  double lower_bound = 0;
  std::map<std::string, double> others = {};  ///< steps of other planners' plans; none may be
                                              ///< shorter than ours
};

/// The function that is timed; reading files is not included.
using Solve = std::function<Answer()>;

struct TargetRow {
  std::string name;
  std::string file;  ///< path below the folder of published data
  Solve (*prepare)(const TargetRow& target, const std::string& path);
  std::vector<double> arguments;  ///< arguments of `prepare`
  double seconds = 0;             ///< maximum processor time, like the next three a maximum; 0: any
  double megabytes = 0;
  double gap = 0;  ///< maximum gap; 1: any
  double objective = 0;
};

/// Arguments: machines and bandwidth of each level, innermost first.
Solve as_pipedream(const TargetRow& target, const std::string& path);
/// Our own search under 1F1B on two such levels, compared with PipeDream's plans: the nested one,
/// and those of a flat network whose devices each have a share of the link between servers, or all
/// of it. Each message has a link to itself.
Solve by_exact_beside_pipedream(const TargetRow& target, const std::string& path);
/// As above, with messages that share the links out of and into their servers.
Solve by_exact_beside_pipedream_shared(const TargetRow& target, const std::string& path);
/// Arguments: servers, devices in each.
Solve as_dapple(const TargetRow& target, const std::string& path);
/// For dnn-partitioning's own files; no arguments.
Solve by_load(const TargetRow& target, const std::string& path);
/// As `by_load`, without contiguity.
Solve by_load_noncontiguous(const TargetRow& target, const std::string& path);
/// For PipeDream's profiles on four devices. Arguments: the batch.
Solve by_load_of_profile(const TargetRow& target, const std::string& path);
/// As `by_load_of_profile`, along only a few orders of the layers; `gap` is the excess over the
/// least load.
Solve by_load_along_orders(const TargetRow& target, const std::string& path);
/// Our own search on the same profiles, over the default schedules.
Solve by_usual_flat(const TargetRow& target, const std::string& path);
/// As `by_usual_flat`, on four nodes of four devices.
Solve by_usual_nested(const TargetRow& target, const std::string& path);
/// As `by_usual_nested`, under 1F1B alone.
Solve by_exact_nested(const TargetRow& target, const std::string& path);
/// Arguments: devices, microbatches, GiB on each.
Solve as_piper(const TargetRow& target, const std::string& path);
/// As `as_piper`, for its BERT-32 with three times the layers.
Solve as_piper_bert96(const TargetRow& target, const std::string& path);
/// Arguments: devices, MB on each, layers (0: as published).
Solve as_aceso(const TargetRow& target, const std::string& path);

}  // namespace stagecraft
