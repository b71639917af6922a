// A snapshot of one rank's flight record.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "executor/flight/record.hpp"

namespace stagecraft {

/// A recent instruction of the rank.
struct RecentInstruction {
  int step = 0;
  Instruction instruction;
  Moment begun{0};
};

struct FlightSnapshot {
  // Constant:
  int rank = 0;
  int ranks = 1;
  std::string name;  ///< "rank 3 (stage 1, replica 0)"
  std::string host;
  int pid = 0;
  std::string plan_hash;
  std::vector<std::vector<int>> groups;  ///< members of each group

  // Current activity. Times are of its host's steady clock.
  Doing doing = Doing::starting;
  Moment since{0};                         ///< start of the activity
  Doing phase = Doing::starting;           ///< activity to resume after a wait
  std::optional<int> peer;                 ///< other end of the channel at which it waits
  int place = -1;                          ///< channel or group
  std::optional<int> step;                 ///< nothing before the first step
  std::optional<int> work;                 ///< the current work of the program, …
  std::optional<Instruction> instruction;  ///< … and its instruction
  Moment work_since{0};
  Moment heartbeat{0};  ///< last heartbeat of its process
  std::int64_t control_calls = 0;
  std::vector<std::int64_t> sent, taken;  ///< messages per channel
  std::vector<std::int64_t> met;          ///< meetings entered per group
  std::vector<RecentInstruction> recent;  ///< oldest first

  // Failure:
  Cause cause = Cause::none;
  Moment failed_at{0};
  std::string failure;
};

/// A partial snapshot of a record of this process: only the activity and its start.
FlightSnapshot glance_at(const FlightRecord& record);

/// Reads a record's bytes. Throws Error (input), naming `file`, if they are damaged or not a flight
/// record.
FlightSnapshot read_flight_record(std::string_view bytes, const std::filesystem::path& file);
/// Reads a record's file.
FlightSnapshot read_flight_record(const std::filesystem::path& file);

/// The records of a folder by rank, and a sentence for each that is unreadable or missing.
struct FlightRecords {
  std::vector<FlightSnapshot> ranks;  ///< ascending
  std::vector<std::string> problems;
};
/// Throws Error (input) if the folder has no readable record.
FlightRecords read_flight_records(const std::filesystem::path& folder);

}  // namespace stagecraft
