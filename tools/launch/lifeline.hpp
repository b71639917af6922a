// What ties a process to the one that started it: it ends when that one does, however it ends, and
// shows whoever supervises it that it lives.
//
//   run ─┬─ rank 0, 1, … (tcp)            each ends with `run`
//        └─ mpirun ─── rank 0, 1, …       with mpirun, and with `run` above it
//
// The kernel's signal at a parent's death (PR_SET_PDEATHSIG) reaches direct children only, and only
// those that asked for it in time. So a rank also waits, on a thread of its own, for the end of its
// launcher, which it knows by number and start (Linux: pidfd_open(2)).

#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "executor/values/late.hpp"

namespace stagecraft {

/// Tells a process, as NAME=value, that this one has started it and that it is to end with it.
std::string launcher_variable();

/// Whether a process of this program has started this one, as one of a run's.
bool started_by_launcher();

/// From now on this process ends when its launcher does: the process that `launcher_variable` was
/// about, and of mpirun, srun and torchrun the nearest of its ancestors. Ends at once if that one
/// has gone already. Without a launcher it goes on. A process of a supervised run also shows from
/// now on that it lives, twice a second. Called first, by whoever may be a rank.
void end_with_launcher();

/// "pulse-1234": a file in the supervisor's folder that says when its process was last seen alive.
struct Pulse {
  int pid = 0;
  Moment at{0};         ///< of this host's clock
  bool beats = false;   ///< it shows it itself; else it has just been started
  std::string process;  ///< "rank 1", or empty
};
/// By who has started the process, for the time until it shows its pulse itself.
void announce_pulse(const std::filesystem::path& folder, pid_t pid, const std::string& process);
/// Where the supervisor of this process's run looks, as its command line says; nothing if it has
/// none.
std::optional<std::filesystem::path> folder_of_supervisor();
/// Nothing if the file is none, or of another host.
std::optional<Pulse> read_pulse(const std::filesystem::path& file);
/// Whether something has stopped the process (SIGSTOP) and it does not go on.
bool is_stopped(pid_t pid);
/// Those of the processes below this one, with their names.
std::map<pid_t, std::string> stopped_below(pid_t ancestor);
/// What its file is called.
inline constexpr std::string_view pulse_prefix = "pulse-";

}  // namespace stagecraft
