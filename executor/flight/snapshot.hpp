// Flight records as whoever looks at them finds them: one rank's at one moment.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "executor/flight/record.hpp"

namespace stagecraft {

/// An instruction the rank has begun lately.
struct RecentInstruction {
  int step = 0;
  Instruction instruction;
  Moment begun{0};
};

struct FlightSnapshot {
  // What does not change:
  int rank = 0;
  int ranks = 1;
  std::string name;  ///< "rank 3 (stage 1, replica 0)"
  std::string host;
  int pid = 0;
  std::string plan_hash;
  std::vector<std::vector<int>> groups;  ///< ranks that meet

  // What it does. Moments are of its host's steady clock.
  Doing doing = Doing::starting;
  Moment since{0};                         ///< the start of that
  Doing phase = Doing::starting;           ///< what goes on when a wait is over
  std::optional<int> peer;                 ///< the other end of the channel it waits at
  int place = -1;                          ///< channel or group
  std::optional<int> step;                 ///< none before the first
  std::optional<int> work;                 ///< what it carries out, …
  std::optional<Instruction> instruction;  ///< … and waits within
  Moment work_since{0};
  Moment heartbeat{0};  ///< the last sign of life of its process
  std::int64_t control_calls = 0;
  std::vector<std::int64_t> sent, taken;  ///< messages per channel
  std::vector<std::int64_t> met;          ///< meetings entered per group
  std::vector<RecentInstruction> recent;  ///< the oldest first

  // How it failed:
  Cause cause = Cause::none;
  Moment failed_at{0};
  std::string failure;
};

/// Of a record of this process: what it does, and since when, alone.
FlightSnapshot glance_at(const FlightRecord& record);

/// Of the bytes of a record. Throws Error (input), naming `file`, if they are damaged or something
/// else.
FlightSnapshot read_flight_record(std::string_view bytes, const std::filesystem::path& file);
/// Of a file.
FlightSnapshot read_flight_record(const std::filesystem::path& file);

/// The records of a folder by rank, and a sentence for each that cannot be read or is not there.
struct FlightRecords {
  std::vector<FlightSnapshot> ranks;  ///< ascending
  std::vector<std::string> problems;
};
/// Throws Error (input) if the folder has no readable record.
FlightRecords read_flight_records(const std::filesystem::path& folder);

}  // namespace stagecraft
