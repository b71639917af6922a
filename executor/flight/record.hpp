// A flight record: the current activity of a rank, readable by other threads and processes at any
// time, even after the rank's process was killed. Each rank writes its own, without allocation
// during a step.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "executor/driver/oversight.hpp"
#include "executor/driver/rank_map.hpp"
#include "simulator/values/program.hpp"

namespace stagecraft {

/// The activities of a rank.
enum class Doing : std::uint8_t {
  starting,       ///< reads, allocates, initialises
  computing,      ///< carries out an instruction
  sending,        ///< waits until a channel has room
  receiving,      ///< waits for a channel's next message
  meeting,        ///< waits for the members of a group
  barrier,        ///< waits for all ranks
  reporting,      ///< waits for all ranks to report to rank 0, or rank 0 for them
  listening,      ///< waits for a broadcast of rank 0
  between,        ///< between two steps
  checkpointing,  ///< writes a checkpoint
  finishing,      ///< hands in weights and times
  ended,          ///< done, as planned
};
inline constexpr std::array doings{Doing::starting,      Doing::computing, Doing::sending,
                                   Doing::receiving,     Doing::meeting,   Doing::barrier,
                                   Doing::reporting,     Doing::listening, Doing::between,
                                   Doing::checkpointing, Doing::finishing, Doing::ended};
std::string_view to_string(Doing doing);  ///< "computing", …

/// The cause of a rank's failure.
enum class Cause : std::uint8_t {
  none,
  error,        ///< an exception
  not_finite,   ///< a result was NaN or infinite; repeating the run does not help
  stalled,      ///< a watchdog found that the run does not make progress
  not_written,  ///< a file could not be written, as on a full disk; repeating the run does not help
};

class FlightRecord {
 public:
  /// Kept in memory only if no folder is given, else in "FOLDER/rank-3.flight", which is replaced.
  /// The program must outlive it. Throws Error (execution) if the file cannot be created.
  FlightRecord(const Oversight& oversight, const Program& program, const RankMap& ranks, int rank);
  ~FlightRecord();
  FlightRecord(const FlightRecord&) = delete;
  FlightRecord& operator=(const FlightRecord&) = delete;

  // Called by the rank's own thread:
  void begin_step(int step);
  /// Begins `work` of the program.
  void begin(int work);
  /// Begins an activity that is not an instruction.
  void begin(Doing doing);
  /// Begins a wait within the current activity, at a channel for its other end, or at a group (then
  /// `peer` is empty).
  void wait(Doing doing, int place, std::optional<int> peer);
  /// Ends the wait, and resumes the activity before it.
  void go_on();
  /// Counts a message that was sent or received, so that a lost one can be detected.
  void count_message(Doing doing, int channel);
  /// Sets the cause of a following failure, instead of `Cause::error`.
  void blame(Cause cause) { blamed_ = cause; }
  Cause blamed() const { return blamed_; }
  /// May be called by any thread of the process; the first call counts.
  void fail(Cause cause, std::string_view sentence);
  std::optional<int> current_work() const;

  /// Called by the process's watchdog.
  void beat();

  /// The whole record, for `read_flight_record`.
  std::string_view bytes() const;

 private:
  void note(Doing doing, int place, std::optional<int> peer);

  struct Mapping;
  const Program& program_;
  std::unique_ptr<Mapping> mapping_;
  Cause blamed_ = Cause::error;
};

/// "rank-3.flight".
std::string flight_file_name(int rank);

}  // namespace stagecraft
