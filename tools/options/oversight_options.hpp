// The flags of `run` for failures: flight records, the limits of a stalled run, and restarts.

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
  std::optional<int> restarts;  ///< nothing: no supervisor
  std::string supervised;       ///< the supervisor's folder, for a supervised run
  int attempt = 0;              ///< for a supervised run: number of failed attempts before it
};

/// --flight-records --deadline --check-finite --restarts.
void declare_oversight(CLI::App& app, OversightFlags& flags);

/// The oversight of these flags; it refers to `console` and `flags`. Throws Error (usage) for
/// malformed flags.
Oversight oversight_of(Console& console, const OversightFlags& flags, const FlightFolder& folder,
                       const std::string& plan_hash, Duration predicted_step);

/// Runs `body` in a supervised process with restarts, or in this one, as the flags say.
/// `checkpoints`: the folder to resume from, or empty. `interrupt`: null in a rank started by a
/// launcher. Returns the exit code.
int run_under_oversight(Console& console, const OversightFlags& flags,
                        const std::string& checkpoints, Interrupt* interrupt,
                        const std::function<int(const FlightFolder&)>& body);

}  // namespace stagecraft
