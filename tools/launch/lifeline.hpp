// Ties a process to the one that started it: the process ends when its launcher ends, for any
// reason, and shows its supervisor that it is alive.
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

/// The environment variable (NAME=value) that tells a child that this process started it and that
/// it must end with this process.
std::string launcher_variable();

/// Whether another process of this program started this one, as part of a run.
bool started_by_launcher();

/// Makes this process end with its launcher: the process named by `launcher_variable`, and the
/// nearest ancestor that is mpirun, srun or torchrun. Ends at once if that process has ended
/// already; has no effect without a launcher. A process of a supervised run also starts to send a
/// heartbeat twice a second. Must be called first, in every process that may be a rank.
void end_with_launcher();

/// The heartbeat file of a process in the supervisor's folder, "pulse-1234", with the time of its
/// last sign of life.
struct Pulse {
  int pid = 0;
  Moment at{0};         ///< time by this host's clock
  bool beats = false;   ///< true: written by the process itself; false: it has just been started
  std::string process;  ///< "rank 1", or empty
};
/// Called by the starter of the process, for the time until its own first heartbeat.
void announce_pulse(const std::filesystem::path& folder, pid_t pid, const std::string& process);
/// The folder of this run's supervisor, from the command line; nothing if there is none.
std::optional<std::filesystem::path> folder_of_supervisor();
/// Reads a heartbeat file; nothing if it is invalid or from another host.
std::optional<Pulse> read_pulse(const std::filesystem::path& file);
/// Whether the process is stopped (SIGSTOP).
bool is_stopped(pid_t pid);
/// The stopped descendants of a process, with their names.
std::map<pid_t, std::string> stopped_below(pid_t ancestor);
/// Prefix of a heartbeat file's name.
inline constexpr std::string_view pulse_prefix = "pulse-";

}  // namespace stagecraft
