// A flight record: what a rank is doing at this moment, readable by other threads and processes at
// any time, and after the rank's process was killed. Each rank writes its own; a step allocates
// nothing for it.

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

/// What a rank can be doing.
enum class Doing : std::uint8_t {
  starting,       ///< reads, allocates, initialises
  computing,      ///< carries out an instruction
  sending,        ///< waits until a channel has room
  receiving,      ///< waits for a channel's next message
  meeting,        ///< waits for the members of a group
  barrier,        ///< waits for all ranks
  reporting,      ///< waits for all ranks to report to rank 0, or rank 0 for them
  listening,      ///< waits for what rank 0 says
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

/// Why a rank gave up.
enum class Cause : std::uint8_t {
  none,
  error,        ///< what it called threw
  not_finite,   ///< a result was NaN or infinite: the same again if it is repeated
  stalled,      ///< a watchdog found that the run does not go on
  not_written,  ///< a file could not be, as on a full disk: the same again if it is repeated
};

class FlightRecord {
 public:
  /// In memory only if no folder is given, else in "FOLDER/rank-3.flight", which is replaced. The
  /// program must outlive it. Throws Error (execution) if the file cannot be made.
  FlightRecord(const Oversight& oversight, const Program& program, const RankMap& ranks, int rank);
  ~FlightRecord();
  FlightRecord(const FlightRecord&) = delete;
  FlightRecord& operator=(const FlightRecord&) = delete;

  // By the rank's own thread:
  void begin_step(int step);
  /// Computes `work` of the program from now on.
  void begin(int work);
  /// Something that is no instruction.
  void begin(Doing doing);
  /// Waits in the midst of what it does, at a channel for its other end, or at a group (`peer` is
  /// then none).
  void wait(Doing doing, int place, std::optional<int> peer);
  /// The wait is over: what it did before goes on.
  void go_on();
  /// A message was handed over or taken, so that a lost one shows.
  void count_message(Doing doing, int channel);
  /// What a failure that follows is due to, other than `Cause::error`.
  void blame(Cause cause) { blamed_ = cause; }
  Cause blamed() const { return blamed_; }
  /// By any thread of the process; the first call counts.
  void fail(Cause cause, std::string_view sentence);
  std::optional<int> current_work() const;

  /// By the process's watchdog.
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
