// How the targets' questions are asked: a published file and some numbers make a function to be
// timed.

#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace stagecraft {

struct Answer {
  double objective = 0;
  double lower_bound = 0;
  std::map<std::string, double> others = {};  ///< of other planners' plans; none may be less
};

/// What is timed; reading files is not.
using Solve = std::function<Answer()>;

struct TargetRow {
  std::string name;
  std::string file;  ///< below the folder of published data
  Solve (*prepare)(const TargetRow& target, const std::string& path);
  std::vector<double> arguments;  ///< as `prepare` names them
  double seconds = 0;             ///< of processor time, as the next three at most; 0: any
  double megabytes = 0;
  double gap = 0;  ///< 1: any
  double objective = 0;
};

/// Arguments: machines and bandwidth of each level, innermost first.
Solve as_pipedream(const TargetRow& target, const std::string& path);
/// Our own search under 1F1B on two such levels, beside PipeDream's plans: the nested one, and
/// those of a flat network whose devices have their part of the link between servers each, or all
/// of it. Steps with a link for each message.
Solve by_exact_beside_pipedream(const TargetRow& target, const std::string& path);
/// Steps with messages that share what leads out of their servers and into them.
Solve by_exact_beside_pipedream_shared(const TargetRow& target, const std::string& path);
/// Arguments: servers, devices in each.
Solve as_dapple(const TargetRow& target, const std::string& path);
/// Of dnn-partitioning's own files; no arguments.
Solve by_load(const TargetRow& target, const std::string& path);
/// The same without contiguity.
Solve by_load_noncontiguous(const TargetRow& target, const std::string& path);
/// Of PipeDream's profiles on four devices. Arguments: the batch.
Solve by_load_of_profile(const TargetRow& target, const std::string& path);
/// The same along a few orders of the layers alone, beside the least load: `gap` is what it misses.
Solve by_load_along_orders(const TargetRow& target, const std::string& path);
/// Our own search on the same, over what is taken where nobody names schedules.
Solve by_usual_flat(const TargetRow& target, const std::string& path);
/// And on four nodes of four.
Solve by_usual_nested(const TargetRow& target, const std::string& path);
/// Under 1F1B alone.
Solve by_exact_nested(const TargetRow& target, const std::string& path);
/// Arguments: devices, microbatches, GiB on each.
Solve as_piper(const TargetRow& target, const std::string& path);
/// The same of its BERT-32 with three times the layers.
Solve as_piper_bert96(const TargetRow& target, const std::string& path);
/// Arguments: devices, MB on each, layers (0: as published).
Solve as_aceso(const TargetRow& target, const std::string& path);

}  // namespace stagecraft
