#include "tools/launch/child_processes.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <optional>

#include "profiles/error.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto patience_after_first = 2s;

class LeavesInterruptsToChildren {
 public:
  LeavesInterruptsToChildren() : before_(std::signal(SIGINT, SIG_IGN)) {}
  ~LeavesInterruptsToChildren() { std::signal(SIGINT, before_); }
  LeavesInterruptsToChildren(const LeavesInterruptsToChildren&) = delete;
  LeavesInterruptsToChildren& operator=(const LeavesInterruptsToChildren&) = delete;

 private:
  void (*before_)(int);
};

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// This program's variables, but those that are given otherwise.
std::vector<std::string> environment_with(const std::vector<std::string>& further) {
  std::vector<std::string> all = further;
  for (char** it = environ; *it != nullptr; ++it) {
    const std::string_view variable = *it;
    const std::string_view name = variable.substr(0, variable.find('=') + 1);
    const bool is_given = std::ranges::any_of(
        further, [&](const std::string& other) { return other.starts_with(name); });
    if (!is_given) all.emplace_back(variable);
  }
  return all;
}

/// Nothing if it cannot be started.
std::optional<pid_t> start(const ChildCommand& command, int errors) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t interrupts;  // ignored here, not there
  sigemptyset(&interrupts);
  sigaddset(&interrupts, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &interrupts);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const std::vector<char*> words = pointers_to(command.words);
  const std::vector<std::string> environment = environment_with(command.environment);
  pid_t child = 0;
  const int failure = posix_spawnp(&child, words[0], &actions, &attributes, words.data(),
                                   pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return failure == 0 ? std::optional(child) : std::nullopt;
}

/// Whole lines of what comes through a pipe.
class Lines {
 public:
  Lines(int descriptor, const std::function<void(const std::string&)>& hear)
      : descriptor_(descriptor), hear_(hear) {}
  ~Lines() { close(descriptor_); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  /// Waits so long for something; whether something came.
  bool read_for(std::chrono::milliseconds patience) {
    pollfd entry{.fd = descriptor_, .events = POLLIN, .revents = 0};
    if (is_closed_ || poll(&entry, 1, static_cast<int>(patience.count())) <= 0) return false;
    std::array<char, 4096> bytes{};
    const ssize_t came = ::read(descriptor_, bytes.data(), bytes.size());
    if (came <= 0) {
      is_closed_ = came == 0;
      return false;
    }
    for (const char byte : std::string_view(bytes.data(), static_cast<std::size_t>(came))) {
      if (byte != '\n') {
        line_ += byte;
        continue;
      }
      hear_(line_);
      line_.clear();
    }
    return true;
  }
  bool is_closed() const { return is_closed_; }
  void finish() {
    if (!line_.empty()) hear_(line_);
  }

 private:
  int descriptor_;
  const std::function<void(const std::string&)>& hear_;
  std::string line_;
  bool is_closed_ = false;
};

class Children {
 public:
  explicit Children(std::chrono::milliseconds patience) : patience_(patience) {}
  ~Children() {
    kill_all();
    while (!look(0)) {
    }
  }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void add(pid_t child) {
    running_.push_back(child);
    ends_.emplace_back();
  }

  /// Whether all have ended.
  bool look(int options) {
    for (std::size_t i = 0; i < running_.size(); ++i) {
      if (running_[i] == 0 || waitpid(running_[i], &ends_[i].status, options) != running_[i]) {
        continue;
      }
      running_[i] = 0;
      if (i == 0) deadline_ = std::min(deadline_, Clock::now() + patience_after_first);
      if (ends_[i].status != 0) deadline_ = std::min(deadline_, Clock::now() + patience_);
    }
    if (Clock::now() > deadline_) kill_all();
    return std::ranges::all_of(running_, [](pid_t child) { return child == 0; });
  }

  const std::vector<ChildEnd>& ends() const { return ends_; }

 private:
  void kill_all() {
    for (std::size_t i = 0; i < running_.size(); ++i) {
      if (running_[i] == 0) continue;
      ends_[i].was_stopped = true;
      kill(running_[i], SIGKILL);
    }
  }

  std::chrono::milliseconds patience_;
  std::vector<pid_t> running_;  ///< 0: no more
  std::vector<ChildEnd> ends_;
  Clock::time_point deadline_ = Clock::time_point::max();
};

}  // namespace

std::vector<ChildEnd> run_commands(const std::vector<ChildCommand>& commands,
                                   const std::function<void(const std::string&)>& hear,
                                   std::chrono::milliseconds patience,
                                   const std::string& not_found) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(ErrorKind::execution, "cannot make a pipe");
  Lines lines(ends[0], hear);
  const LeavesInterruptsToChildren leaves;
  Children children(patience);
  for (const ChildCommand& command : commands) {
    const auto child = start(command, ends[1]);
    if (!child) {
      close(ends[1]);
      throw Error(ErrorKind::execution, not_found);
    }
    children.add(*child);
  }
  close(ends[1]);
  while (!children.look(WNOHANG)) {
    if (!lines.read_for(20ms) && lines.is_closed()) usleep(1000);
  }
  while (lines.read_for(0ms)) {
  }
  lines.finish();
  return children.ends();
}

std::string killed_by(int status) {
  if (!WIFSIGNALED(status)) return "";
  return concat("was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
}

int code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace stagecraft
