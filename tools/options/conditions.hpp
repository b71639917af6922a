// The flags that say under what conditions a program runs: how devices wait for messages, what
// these share, what slows or stops devices, how much memory there is.

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

/// Flags as they were given; empty is the clock's own condition.
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
  std::vector<Bytes> memory_limits;  ///< of the program's devices; empty: not known
  /// All devices of the cluster that each of the program's stands for; empty: those of `devices`.
  std::vector<std::vector<int>> rows = {};
};

/// Where a plan's program runs.
Site site_of(const LoadedPlan& loaded, const Compiled& compiled);

/// Nothing where the fast clock will do. Flags name the cluster's devices. Throws Error (usage) for
/// what is malformed, or is not there: a device, links or memory that nothing was said about.
std::optional<Environment> environment_of(const ConditionOptions& options, const Program& program,
                                          const Costs& costs, const Site& site);

/// On the fast clock without an environment. Throws Error (infeasible) if the program cannot go on
/// for lack of memory.
EventRun run_under(const std::optional<Environment>& environment, const Program& program,
                   const Costs& costs, const SimulateOptions& options = {});

/// "device 1 waits for memory for 40ms", "device 2 never ends: …": what people should know of a
/// run, a line each. `device_names` as in `DrawOptions`.
std::string remarks_on(const EventRun& run, const std::vector<int>& device_names = {});

}  // namespace stagecraft
