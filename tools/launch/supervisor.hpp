// A supervisor: runs a training run in a separate process, reports why it died or stalled, and
// restarts it from its last checkpoint.
//
//   run --restarts 3 ─┬─ run, supervised ── killed ─→ who, where, when
//                     ├─ run, supervised, from the checkpoint ── stalls ─→ who waits for whom
//                     └─ run, supervised, from the checkpoint ── ends

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "profiles/error.hpp"
#include "profiles/units.hpp"
#include "tools/console.hpp"
#include "tools/launch/interrupt.hpp"

namespace stagecraft {

struct Supervision {
  int restarts = 0;  ///< maximum number of restarts
  std::filesystem::path
      folder;  ///< folder of flight records, where supervised runs also report their failures
  std::filesystem::path checkpoints;  ///< folder to resume from; empty: the run starts from its
                                      ///< beginning
  Duration longest_start{0};          ///< maximum time until a run begins to train
};

/// Runs this program's command line without --restarts until it ends, or fails in a way that would
/// recur. A run that was killed, at any time, is restarted from the newest intact checkpoint.
/// Returns its exit code. Throws Error (execution) with the last failure. The first SIGINT or
/// SIGTERM is passed on.
int supervise(Console& console, const Interrupt& interrupt, const Supervision& supervision);

/// Reports a supervised run's error to its supervisor, instead of printing it. A report of a cause
/// outside of the run (ChildKilled, PeerLost), or of a recurring failure, is not replaced by later
/// errors that follow from it.
void tell_supervisor(const std::filesystem::path& folder, const Error& error);

/// An error of a rank that has been reported to the supervisor: the other ranks still get it, but
/// it is not printed.
class ToldToSupervisor : public Error {
 public:
  explicit ToldToSupervisor(const Error& error) : Error(error) {}
};

/// As `tell_supervisor`, for a launcher whose ranks may have reported an error themselves: their
/// report counts, unless a rank was killed, since then the other reports only follow from that.
void tell_supervisor_as_launcher(const std::filesystem::path& folder, const Error& error);

/// That the run has said its result, and with which exit code: whatever ends its processes from now
/// on is no reason to repeat it.
void tell_finished(const std::filesystem::path& folder, int code);

}  // namespace stagecraft
