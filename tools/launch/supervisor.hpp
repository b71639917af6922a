// A supervisor: carries out a run in a process of its own, says what happened when it dies or
// stalls, and starts it again from its last checkpoint.
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
  int restarts = 0;  ///< at most
  std::filesystem::path
      folder;  ///< of flight records; the supervised runs say there how they failed
  std::filesystem::path checkpoints;  ///< what a run resumes from; empty: from its beginning
  Duration longest_start{0};          ///< until a run has begun to train
};

/// Runs this program's own command line, less --restarts, until it ends, or fails in a way that
/// would come again. Whatever kills it, at whatever time, it is started again, from the newest
/// checkpoint that is whole. Returns its exit code. Throws Error (execution) with the last failure.
/// The first SIGINT or SIGTERM is passed on.
int supervise(Console& console, const Interrupt& interrupt, const Supervision& supervision);

/// What a supervised run says instead of printing its error. That something outside of the run is
/// to blame (ChildKilled, PeerLost), or that it would come again, stays, whatever others say that
/// follows from it.
void tell_supervisor(const std::filesystem::path& folder, const Error& error);

/// A rank's error that its supervisor has been told: the other ranks have to hear of it, and nobody
/// prints it.
class ToldToSupervisor : public Error {
 public:
  explicit ToldToSupervisor(const Error& error) : Error(error) {}
};

/// As one whose ranks may have said it themselves: that counts, unless one was killed, from which
/// all the others' words only follow.
void tell_supervisor_as_launcher(const std::filesystem::path& folder, const Error& error);

/// That the run has said its result, and with which exit code: whatever ends its processes from now
/// on is no reason to repeat it.
void tell_finished(const std::filesystem::path& folder, int code);

}  // namespace stagecraft
