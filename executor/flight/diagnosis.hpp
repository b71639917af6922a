// Why a run does not go on: from its ranks' flight records, who waits for whom, and for whom all.

#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/flight/snapshot.hpp"

namespace stagecraft {

/// How long a process may be silent; its watchdog beats several times a second.
inline constexpr Duration longest_silence = std::chrono::seconds(3);

/// A rank's record, and what whoever looks at it knows besides.
struct Sight {
  FlightSnapshot record;
  Moment at{0};         ///< until when the record holds; of its host's clock
  bool silent = false;  ///< its process was stopped, killed, or ended without a word
};

/// At the moment `at` of this host's clock. Of a rank of another host only its last sign of life is
/// known.
Sight see(FlightSnapshot record, Moment at);

enum class Verdict {
  ended,    ///< all ranks are done
  failed,   ///< a rank gave up, and said why
  silent,   ///< a process was stopped or killed
  lost,     ///< a message was sent, and did not arrive
  held_up,  ///< those who wait, wait for one rank, directly or through others
  cycle,    ///< ranks wait for each other
  unknown,  ///< records are damaged or missing, and the others tell of no failure
};
std::string_view to_string(Verdict verdict);

struct Diagnosis {
  Verdict verdict = Verdict::ended;
  std::optional<int> rank;  ///< whom it is about; none of a cycle
  std::vector<int> cycle;   ///< ranks, each waiting for the next
  std::string sentence;
};

/// The ranks' records, at least one.
Diagnosis diagnose(std::span<const Sight> sights);

/// The ranks this one waits for, as far as the records tell: ascending.
std::vector<int> waits_for(const Sight& sight, std::span<const Sight> all);

/// "waits in F1.5 for a message from rank 0", "computes B1.5".
std::string describe_doing(const Sight& sight, std::span<const Sight> all);

/// "during B1.5 in step 12"; people count steps from 1. "before its first step".
std::string describe_moment(const FlightSnapshot& record);

}  // namespace stagecraft
