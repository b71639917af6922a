#include "tools/launch/child_processes.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "profiles/error.hpp"
#include "tools/launch/handed_on.hpp"
#include "tools/launch/pipe.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds patience_after_first = 2s;
/// With what has been asked to end before it had begun, or has failed after a signal: mpirun takes
/// a second longer than the ranks that it ends.
constexpr std::chrono::milliseconds patience_after_signal = 300ms;
constexpr std::chrono::milliseconds signal_again_every = 200ms;

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

/// The signals that a child gets as everybody does, whatever this program makes of them.
constexpr std::array reset_signals{SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ};

struct ChildStart {
  const std::vector<char*>& words;
  const std::vector<char*>& environment;
  int errors = -1;   ///< its standard error
  int output = -1;   ///< its standard output; -1: ours
  int nothing = -1;  ///< its standard input
  int failure = -1;  ///< where it says why it could not be started
  int signal_of_parents_death = SIGKILL;
  bool ignores_interrupts = false;  ///< as this program was told to (nohup)
  pid_t parent = 0;
  const SignalsHeldBack& signals;
};

/// Between fork and exec: only what is safe there while other threads hold locks.
[[noreturn]] void become_child(const ChildStart& start) {
  setpgid(0, 0);
  for (const int signal : reset_signals) {
    if (signal != SIGINT || !start.ignores_interrupts) std::signal(signal, SIG_DFL);
  }
  start.signals.let_go();
  if (tie_to_parent(start.signal_of_parents_death, start.parent)) {
    dup2(start.nothing, STDIN_FILENO);
    dup2(start.errors, STDERR_FILENO);
    if (start.output >= 0) dup2(start.output, STDOUT_FILENO);
    environ = const_cast<char**>(start.environment.data());
    execvp(start.words[0], start.words.data());
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(start.failure, &error, sizeof error);
  _exit(exit_code(ErrorKind::execution));
}

/// Nothing if it cannot be started.
std::optional<pid_t> start(const ChildCommand& command, int errors, int output) {
  const std::vector<char*> words = pointers_to(command.words);
  const std::vector<std::string> variables = environment_with(command.environment);
  const std::vector<char*> environment = pointers_to(variables);
  const OwnedDescriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Pipe failure;
  struct sigaction before {};
  sigaction(SIGINT, nullptr, &before);
  const SignalsHeldBack held_back;
  const ChildStart how{.words = words,
                       .environment = environment,
                       .errors = errors,
                       .output = output,
                       .nothing = nothing.number(),
                       .failure = failure.in.number(),
                       .signal_of_parents_death = command.signal_of_parents_death,
                       .ignores_interrupts = before.sa_handler == SIG_IGN,
                       .parent = getpid(),
                       .signals = held_back};
  const pid_t child = fork();
  if (child < 0) {
    throw Error(ErrorKind::execution, concat("cannot start a process: ", std::strerror(errno)));
  }
  if (child == 0) become_child(how);
  held_back.let_go();
  setpgid(child, child);
  failure.in.close_now();
  int error = 0;
  ssize_t came = 0;
  do {
    came = read(failure.out.number(), &error, sizeof error);
  } while (came < 0 && errno == EINTR);
  if (came == 0) return child;
  waitpid(child, nullptr, 0);
  return {};
}

/// Whole lines of what comes through a pipe.
class Lines {
 public:
  Lines(int descriptor, const std::function<Heard(const std::string&)>& hear)
      : descriptor_(descriptor), hear_(hear) {}

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
      const Heard heard = hear_(line_);
      has_failed_ = has_failed_ || heard == Heard::failed;
      has_finished_ = has_finished_ || heard == Heard::finished;
      begun_ = begun_ || heard == Heard::begun;
      is_stuck_ = is_stuck_ || heard == Heard::stuck;
      line_.clear();
    }
    return true;
  }
  /// Whether nothing more is to come of the run.
  bool is_to_end() const { return has_failed_ || has_finished_; }
  bool has_failed() const { return has_failed_; }
  bool begun() const { return begun_; }
  bool is_stuck() const { return is_stuck_; }
  bool is_closed() const { return is_closed_; }
  void finish() {
    if (!line_.empty()) hear_(line_);
  }

 private:
  int descriptor_;
  const std::function<Heard(const std::string&)>& hear_;
  std::string line_;
  bool is_closed_ = false;
  bool has_failed_ = false, has_finished_ = false, begun_ = false, is_stuck_ = false;  ///< by words
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
    ends_.push_back({.pid = child});
  }

  /// Passes the first signal on; the second one ends this program.
  void hear_signals(const Interrupt& interrupt, const std::vector<ChildCommand>& commands,
                    bool begun) {
    if (!interrupt.interrupted() || heard_end_ || Clock::now() < next_signal_) return;
    const bool is_first = !std::exchange(passed_on_, true);
    next_signal_ = Clock::now() + signal_again_every;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      if (running_[i] == 0) continue;
      if (commands[i].passes_on_user_signals) {
        pass_to_ranks_of(running_[i], interrupt.signal(), begun);
      } else if (is_first) {
        kill(running_[i], interrupt.signal());
      }
    }
  }

  /// All are to end by themselves.
  void hear_end(bool has_failed) {
    if (std::exchange(heard_end_, true)) return;
    const bool is_called_off = has_failed && passed_on_;
    deadline_ =
        std::min(deadline_, Clock::now() + (is_called_off ? patience_after_signal : patience_));
  }

  /// Nothing is to be waited for, but an end in which mpirun removes its files and ends processes
  /// that are stopped, or on other hosts.
  void call_off() {
    if (std::exchange(called_off_, true)) return;
    for (const pid_t child : running_) {
      if (child != 0) kill(child, SIGTERM);
    }
    deadline_ = std::min(deadline_, Clock::now() + patience_after_first);
  }

  /// They have taken too long to begin, or nobody hears what they say.
  void give_up() { deadline_ = Clock::time_point::min(); }

  /// Whether all have ended.
  bool look(int options) {
    for (std::size_t i = 0; i < running_.size(); ++i) {
      if (running_[i] == 0 || waitpid(running_[i], &ends_[i].status, options) != running_[i]) {
        continue;
      }
      running_[i] = 0;
      // Whoever is to end in good order may take the time of a step and of a checkpoint.
      if (i == 0) deadline_ = std::min(deadline_, Clock::now() + patience_after_first);
      // Where the reason has been told, nothing more is to be learnt from the others.
      if (ends_[i].status != 0) {
        const auto patience = heard_end_ ? patience_after_first : patience_;
        deadline_ = std::min(deadline_, Clock::now() + patience);
      }
    }
    if (Clock::now() > deadline_) kill_all();
    return std::ranges::all_of(running_, [](pid_t child) { return child == 0; });
  }

  const std::vector<ChildEnd>& ends() const { return ends_; }

 private:
  /// A young mpirun has no ranks yet, and what it is to pass on would be lost.
  void pass_to_ranks_of(pid_t launcher, int signal, bool begun) {
    if (called_off_) return;
    if (begun) {
      kill(launcher, signal == SIGINT ? SIGUSR1 : SIGUSR2);
      return;
    }
    called_off_ = true;
    kill(launcher, SIGTERM);
    deadline_ = std::min(deadline_, Clock::now() + patience_after_signal);
  }

  /// With what they have started in their groups, which may live on where they are gone.
  void kill_all() {
    for (std::size_t i = 0; i < running_.size(); ++i) {
      if (running_[i] == 0) continue;
      ends_[i].was_stopped = true;
      kill(-running_[i], SIGKILL);
      kill(running_[i], SIGKILL);
    }
  }

  std::chrono::milliseconds patience_;
  std::vector<pid_t> running_;  ///< 0: no more
  std::vector<ChildEnd> ends_;
  bool passed_on_ = false;
  bool called_off_ = false;  ///< before it had begun
  bool heard_end_ = false;
  Clock::time_point next_signal_ = Clock::time_point::min();
  Clock::time_point deadline_ = Clock::time_point::max();
};

/// Whether standard output that takes no more, by this errno, is no place to go on for.
bool ends_all(const std::vector<ChildCommand>& commands, int lost_by) {
  if (lost_by == 0) return false;
  return lost_by != EPIPE || std::ranges::none_of(commands, &ChildCommand::goes_on_unread);
}

}  // namespace

std::vector<ChildEnd> run_commands(const std::vector<ChildCommand>& commands,
                                   const Interrupt& interrupt,
                                   const std::function<Heard(const std::string&)>& hear,
                                   std::chrono::milliseconds patience,
                                   std::optional<std::chrono::milliseconds> longest_start,
                                   const std::string& not_found) {
  Pipe errors;
  std::optional<HandedOn> output;
  Lines lines(errors.out.number(), hear);
  Children children(patience);
  const auto start_of_all = Clock::now();
  for (const ChildCommand& command : commands) {
    if (command.output_through_us && !output && isatty(STDOUT_FILENO) == 0) output.emplace();
    const bool through_us = command.output_through_us && output.has_value();
    const auto child = start(command, errors.in.number(), through_us ? output->in() : -1);
    if (!child) throw Error(ErrorKind::execution, not_found);
    children.add(*child);
    command.on_started(*child);
  }
  errors.in.close_now();
  if (output) output->begin();
  for (;;) {
    children.hear_signals(interrupt, commands, lines.begun());
    if (lines.is_to_end()) children.hear_end(lines.has_failed());
    if (lines.is_stuck()) children.call_off();
    if (output && ends_all(commands, output->lost_by())) children.give_up();
    if (longest_start && !lines.begun() && Clock::now() - start_of_all > *longest_start)
      children.give_up();
    if (children.look(WNOHANG)) break;
    if (!lines.read_for(20ms) && lines.is_closed()) usleep(1000);
  }
  while (lines.read_for(0ms)) {
  }
  lines.finish();
  std::vector<ChildEnd> ends = children.ends();
  if (output) output->finish();
  for (std::size_t i = 0; output && i < ends.size(); ++i)
    ends[i].lost_output_by = commands[i].output_through_us ? output->lost_by() : 0;
  return ends;
}

SignalsHeldBack::SignalsHeldBack() {
  sigset_t all{};
  sigemptyset(&all);
  for (const int signal : reset_signals) sigaddset(&all, signal);
  pthread_sigmask(SIG_BLOCK, &all, &before_);
}

bool tie_to_parent(int signal, pid_t parent) {
  return prctl(PR_SET_PDEATHSIG, signal) == 0 && getppid() == parent;
}

std::string killed_by(int status) {
  if (!WIFSIGNALED(status)) return "";
  return concat("was killed by ", words_of_signal(WTERMSIG(status)));
}

int code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace stagecraft
