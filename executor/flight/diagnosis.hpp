// Diagnosis of a run that does not make progress: the waits between its ranks, from their flight
// records, and the cause.

#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/flight/snapshot.hpp"

namespace stagecraft {

/// Maximum silence of a process; its watchdog beats several times a second.
inline constexpr Duration longest_silence = std::chrono::seconds(3);

/// A rank's record, with the observer's knowledge.
struct Sight {
  FlightSnapshot record;
  Moment at{0};         ///< time up to which the record is valid, by its host's clock
  bool silent = false;  ///< its process was stopped, killed, or ended without a report
};

/// The sight of a record at the time `at` of this host's clock. For a rank of another host, only
/// its last heartbeat is known.
Sight see(FlightSnapshot record, Moment at);

enum class Verdict {
  ended,    ///< all ranks have ended
  failed,   ///< a rank failed and reported the reason
  silent,   ///< a process was stopped or killed
  lost,     ///< a message was sent but did not arrive
  held_up,  ///< all waiting ranks wait for one rank, directly or through others
  cycle,    ///< a cycle of waiting ranks
  unknown,  ///< records are damaged or missing, and the others show no failure
};
std::string_view to_string(Verdict verdict);

struct Diagnosis {
  Verdict verdict = Verdict::ended;
  std::optional<int> rank;  ///< the rank concerned; nothing for a cycle
  std::vector<int> cycle;   ///< ranks, each waiting for the next
  std::string sentence;
};

/// The diagnosis from the ranks' records, of which there must be at least one.
Diagnosis diagnose(std::span<const Sight> sights);

/// The ranks that this one waits for, as far as the records show, ascending.
std::vector<int> waits_for(const Sight& sight, std::span<const Sight> all);

/// "waits in F1.5 for a message from rank 0", "computes B1.5".
std::string describe_doing(const Sight& sight, std::span<const Sight> all);

/// "during B1.5 in step 12" (steps are counted from 1 in texts), or "before its first step".
std::string describe_moment(const FlightSnapshot& record);

}  // namespace stagecraft
