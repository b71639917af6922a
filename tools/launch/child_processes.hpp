// Child processes: starts them, reads their output and waits for them. None of them outlives this
// program.

#pragma once

#include <signal.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "profiles/error.hpp"
#include "tools/launch/interrupt.hpp"

namespace stagecraft {

struct ChildCommand {
  std::vector<std::string> words;        ///< the program, searched on the path, and its arguments
  std::vector<std::string> environment;  ///< "NAME=value", in addition to this program's
                                         ///< environment
  /// Which signals the child gets for this program's SIGINT and SIGTERM: these, or SIGUSR1 and
  /// SIGUSR2 for a child like mpirun, which does not pass on the former. mpirun drops signals while
  /// it has no processes to pass them to: so the child is terminated instead until it has begun,
  /// and later the signals are repeated. Their receiver must treat several as one.
  bool passes_on_user_signals = false;
  /// Whether the child's standard output goes through this program if it is not a terminal. For
  /// children like mpirun, which do not report that their own standard output cannot be written.
  bool output_through_us = false;
  /// Whether the child continues if standard output has lost its reader, since it also writes a
  /// file.
  bool goes_on_unread = false;
  /// Called with the process id as soon as it is known.
  std::function<void(pid_t pid)> on_started = [](pid_t) {};
  /// The signal that the kernel sends the child if this program ends first.
  int signal_of_parents_death = SIGKILL;
};

struct ChildEnd {
  int pid = 0;               ///< process id
  int status = 0;            ///< status as from waitpid
  bool was_stopped = false;  ///< stopped by this program, since other children had ended
  int lost_output_by = 0;    ///< see `ChildCommand::output_through_us`: errno; 0: nothing was lost
};

/// A signal from outside ended a child, so the run may be repeated.
class ChildKilled : public Error {
 public:
  explicit ChildKilled(std::string sentence) : Error(ErrorKind::execution, std::move(sentence)) {}
};

/// The meaning of a child's line for all children.
enum class Heard { nothing, begun, failed, finished, stuck };

/// Runs the commands side by side, each in its own process group and without standard input, and
/// passes every line of their standard error to `hear`, which returns its meaning. After a line
/// that means failure or completion, or after the failure of a child, the other children have
/// `patience` to end, and two seconds once the first of them has ended; then they are killed. All
/// children are killed if they have not begun within `longest_start`. Stuck children get SIGTERM,
/// and are killed 2 s later. The first SIGINT or SIGTERM is passed on to each child; a second one
/// kills them, and so does a failure to write their output. Throws Error (execution) with
/// `not_found` if the program cannot be started.
std::vector<ChildEnd> run_commands(const std::vector<ChildCommand>& commands,
                                   const Interrupt& interrupt,
                                   const std::function<Heard(const std::string& line)>& hear,
                                   std::chrono::milliseconds patience,
                                   std::optional<std::chrono::milliseconds> longest_start,
                                   const std::string& not_found);

/// Blocks signals on this thread during a fork, so that signals to the child wait until it has
/// reset this program's handlers, instead of running copies of them.
class SignalsHeldBack {
 public:
  SignalsHeldBack();
  ~SignalsHeldBack() { let_go(); }
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;
  /// Unblocks the signals, also in the child between fork and exec.
  void let_go() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// To be called in a child just forked by `parent`: asks the kernel to send `signal` when the
/// parent ends. Returns false if the parent has ended already.
bool tie_to_parent(int signal, pid_t parent);

/// "was killed by signal 9 (Killed)"; empty if the process was not killed.
std::string killed_by(int status);
/// The exit code, or 128 plus the signal.
int code_of(int status);

}  // namespace stagecraft
