#include "tools/launch/lifeline.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "executor/transports/processes.hpp"
#include "profiles/error.hpp"
#include "tools/launch/files_of_mpirun.hpp"
#include "tools/launch/own_command_line.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

constexpr const char* launcher_name = "STAGECRAFT_LAUNCHER";
constexpr auto look_again = 200ms;  ///< where the kernel cannot tell of a process's end
constexpr auto beat_every = 500ms;

/// A number alone may be another process's by now.
struct ProcessMark {
  pid_t pid = 0;
  unsigned long long start = 0;  ///< in the kernel's ticks since it booted
  bool operator==(const ProcessMark&) const = default;
};

struct ProcessStatus {
  std::string name;
  std::string state;  ///< one letter
  pid_t parent = 0;
  ProcessMark mark;
};

/// From /proc/PID/stat (proc(5)): "pid (name) state parent … start …", the name with any character.
std::optional<ProcessStatus> status_of(pid_t pid) {
  std::ifstream file(concat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  const std::size_t open = line.find('('), close = line.rfind(')');
  if (open == line.npos || close == line.npos) return {};
  ProcessStatus status{.name = line.substr(open + 1, close - open - 1), .mark = {.pid = pid}};
  std::istringstream rest(line.substr(close + 1));
  std::string skipped;
  constexpr int between = 17;  // of the parent and the start
  rest >> status.state >> status.parent;
  for (int i = 0; i < between; ++i) rest >> skipped;
  if (!(rest >> status.mark.start) || status.state == "Z" || status.state == "X") return {};
  return status;
}

/// The same for all processes that share a kernel.
std::string boot_name() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string name;
  std::getline(file, name);
  return name;
}

/// The launcher that is announced, if it is, or was, one of this machine.
std::optional<ProcessMark> announced_launcher() {
  const char* value = std::getenv(launcher_name);
  if (value == nullptr) return {};
  std::istringstream words(value);
  ProcessMark mark;
  std::string boot;
  if (!(words >> mark.pid >> mark.start >> boot) || boot != boot_name()) return {};
  return mark;
}

bool is_launcher(std::string_view name) {
  constexpr std::array names{"mpirun", "mpiexec", "orterun",         "orted",      "prterun",
                             "prted",  "prte",    "hydra_pmi_proxy", "slurmstepd", "torchrun"};
  return std::ranges::find(names, name) != names.end();
}

/// The nearest ancestor that starts processes of runs. torchrun is a script: its name is Python's.
std::optional<ProcessMark> launching_ancestor() {
  const bool by_torchrun = std::getenv("TORCHELASTIC_RUN_ID") != nullptr;
  for (pid_t pid = getppid(); pid > 1;) {
    const auto status = status_of(pid);
    if (!status) return {};
    if (is_launcher(status->name) || (by_torchrun && status->name.starts_with("python"))) {
      return status->mark;
    }
    pid = status->parent;
  }
  return {};
}

bool is_there(const ProcessMark& mark) {
  const auto status = status_of(mark.pid);
  return status && status->mark == mark;
}

/// Returns when one of them is no more.
void await_end_of_any(const std::vector<ProcessMark>& marks) {
  std::vector<pollfd> entries;
  for (const ProcessMark& mark : marks) {
    const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, mark.pid, 0));
    entries.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  }
  const bool can_wait = std::ranges::all_of(entries, [](const pollfd& e) { return e.fd >= 0; });
  // Looked at when it can be waited for: who has its number now may be somebody else.
  while (std::ranges::all_of(marks, is_there)) {
    if (!can_wait) {
      std::this_thread::sleep_for(look_again);
    } else if (poll(entries.data(), entries.size(), -1) > 0) {
      break;
    }
  }
  for (const pollfd& entry : entries) {
    if (entry.fd >= 0) close(entry.fd);
  }
}

/// Where the launcher is gone, its mpirun has been asked to end the ranks and to remove its files;
/// ranks that end by themselves meanwhile may keep it from doing so. Files of one that was killed
/// are removed here.
void leave_to_mpirun(const ProcessMark& mpirun) {
  constexpr auto patience = 300ms;
  constexpr auto between_looks = 5ms;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (is_there(mpirun) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(between_looks);
  if (!is_there(mpirun)) remove_files_of_mpirun(mpirun.pid);
}

std::string pulse_line(pid_t pid, bool beats, const std::string& process) {
  return concat(pid, " ", now().count(), " ", boot_name(), beats ? " beats " : " starts ", process,
                "\n");
}

std::filesystem::path pulse_file(const std::filesystem::path& folder, pid_t pid) {
  return folder / concat(pulse_prefix, pid);
}

void show_pulse(const std::filesystem::path& folder, const std::string& process) {
  const std::filesystem::path file = pulse_file(folder, getpid());
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor < 0) return;  // the supervisor then knows less, and the run goes on
  std::thread([descriptor, process] {
    for (;; std::this_thread::sleep_for(beat_every)) {
      const std::string line = pulse_line(getpid(), true, process);
      if (pwrite(descriptor, line.data(), line.size(), 0) < 0) return;
    }
  }).detach();
}

}  // namespace

std::string launcher_variable() {
  const auto own = status_of(getpid());
  return concat(launcher_name, "=", getpid(), " ", own ? own->mark.start : 0, " ", boot_name());
}

bool started_by_launcher() {
  return std::getenv(launcher_name) != nullptr && launch();
}

void end_with_launcher() {
  const auto started = launch();
  if (const auto folder = folder_of_supervisor())
    show_pulse(*folder, started ? concat("rank ", started->rank) : std::string());
  if (!started) return;
  std::vector<ProcessMark> marks;
  if (const auto mark = announced_launcher()) marks.push_back(*mark);
  const bool is_of_mpi = started->transport == "mpi";
  const auto ancestor =
      is_of_mpi || started->launcher == "torchrun" ? launching_ancestor() : std::nullopt;
  if (ancestor) marks.push_back(*ancestor);
  if (marks.empty()) return;
  std::thread([marks = std::move(marks), ancestor, is_of_mpi] {
    await_end_of_any(marks);
    if (ancestor && is_of_mpi) leave_to_mpirun(*ancestor);
    _exit(exit_code(ErrorKind::execution));  // nobody is left to be told
  }).detach();
}

void announce_pulse(const std::filesystem::path& folder, pid_t pid, const std::string& process) {
  std::ofstream(pulse_file(folder, pid)) << pulse_line(pid, false, process);
}

std::optional<std::filesystem::path> folder_of_supervisor() {
  const std::vector<std::string> words = own_command_line();
  const auto option = std::ranges::find(words, "--supervised");
  if (option == words.end() || std::next(option) == words.end()) return {};
  return *std::next(option);
}

std::optional<Pulse> read_pulse(const std::filesystem::path& file) {
  std::ifstream stream(file);
  Pulse pulse;
  Moment::rep at = 0;
  std::string boot, how;
  if (!(stream >> pulse.pid >> at >> boot >> how) || boot != boot_name()) return {};
  pulse.at = Moment{at};
  pulse.beats = how == "beats";
  std::getline(stream >> std::ws, pulse.process);
  return pulse;
}

bool is_stopped(pid_t pid) {
  const auto status = status_of(pid);
  return status && status->state == "T";
}

std::map<pid_t, std::string> stopped_below(pid_t ancestor) {
  std::map<pid_t, ProcessStatus> all;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
    const auto pid = static_cast<pid_t>(std::atoi(entry.path().filename().c_str()));
    if (auto status = pid > 0 ? status_of(pid) : std::nullopt) all.emplace(pid, *std::move(status));
  }
  std::map<pid_t, std::string> stopped;
  for (const auto& [pid, status] : all) {
    if (status.state != "T") continue;
    // Parents may have changed meanwhile: no more steps than there are processes.
    auto above = all.find(status.parent);
    for (std::size_t i = 0; i < all.size() && above != all.end(); ++i) {
      if (above->first == ancestor) stopped.emplace(pid, status.name);
      above = all.find(above->second.parent);
    }
  }
  return stopped;
}

}  // namespace stagecraft
