// The flags for the conditions of a simulation: how devices wait for messages, shared links, slow
// and stopped devices, memory limits.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/costs/predict.hpp"
#include "planner/interop/load_plan.hpp"
#include "profiles/cluster.hpp"
#include "simulator/engines/events.hpp"
#include "tools/options/sharing_options.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Flags as they were given; empty: the conditions of the fast clock.
struct ConditionOptions {
  std::string policy = "async";
  std::string protocol, slow_down, slow, stop, memory_limit;
  SharingOptions sharing;
  int buffers = 1;
};

/// --link-policy --protocol --buffers --sharing --devices-per-link --slow-down --slow --stop
/// --memory-limit.
void declare_conditions(CLI::App& app, ConditionOptions& options);

/// Device i of a program is device `devices[i]` of the cluster.
struct Site {
  const Cluster& cluster;
  std::vector<int> devices;
  std::vector<Bytes> memory_limits;  ///< limits of the program's devices; empty: unknown
  /// For each of the program's devices, the cluster's devices that it stands for; empty: those of
  /// `devices`.
  std::vector<std::vector<int>> rows = {};
};

/// The site of a plan's program.
Site site_of(const LoadedPlan& loaded, const Compiled& compiled);

/// The environment of the flags, which use the cluster's device numbers; nothing if the fast clock
/// suffices. Throws Error (usage) for malformed flags, and for devices, links or memory limits that
/// do not exist.
std::optional<Environment> environment_of(const ConditionOptions& options, const Program& program,
                                          const Costs& costs, const Site& site);

/// Simulates under the environment, or by the fast clock without one. Throws Error (infeasible) if
/// the program cannot continue for lack of memory.
EventRun run_under(const std::optional<Environment>& environment, const Program& program,
                   const Costs& costs, const SimulateOptions& options = {});

/// Remarks on a run, one per line: "device 1 waits for memory for 40ms", "device 2 never ends: …".
/// `device_names` as in `DrawOptions`.
std::string remarks_on(const EventRun& run, const std::vector<int>& device_names = {});

}  // namespace stagecraft
