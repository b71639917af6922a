// The flags of `run` about failures: what is written down, when a run counts as stalled, and how
// often it is started again.

#pragma once

#include <functional>
#include <optional>
#include <string>

#include "executor/driver/oversight.hpp"
#include "tools/console.hpp"
#include "tools/launch/flight_folder.hpp"
#include "tools/launch/interrupt.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Flags as they were given.
struct OversightFlags {
  std::string flight_records, deadline, check_finite = "on";
  std::optional<int> restarts;  ///< none: without a supervisor
  std::string supervised;       ///< the supervisor's folder, of a run that has one
  int attempt = 0;              ///< of such a run: how many have failed before
};

/// --flight-records --deadline --check-finite --restarts.
void declare_oversight(CLI::App& app, OversightFlags& flags);

/// What refers to `console` and `flags`. Throws Error (usage) for flags that are malformed.
Oversight oversight_of(Console& console, const OversightFlags& flags, const FlightFolder& folder,
                       const std::string& plan_hash, Duration predicted_step);

/// Does `body`, the run, as the flags say: in a process of its own that is started again, or here.
/// `checkpoints`: the folder from which it can go on, or empty. `interrupt`: null in a rank that
/// somebody else has started. Returns the exit code.
int run_under_oversight(Console& console, const OversightFlags& flags,
                        const std::string& checkpoints, Interrupt* interrupt,
                        const std::function<int(const FlightFolder&)>& body);

}  // namespace stagecraft
