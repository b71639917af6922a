// Programs that this one starts, listens to and waits for. None of them outlives it.

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
  std::vector<std::string> words;        ///< the program first, looked for on the path
  std::vector<std::string> environment;  ///< "NAME=value", besides what this program has
  /// What it is sent when this program is: SIGINT and SIGTERM, or where it would pass on neither,
  /// as mpirun does, SIGUSR1 and SIGUSR2. Such a one loses them while it has nobody to pass them
  /// on to: until something has begun it is ended instead, and from then on they are repeated, so
  /// that whoever gets them is to take several for one.
  bool passes_on_user_signals = false;
  /// What it prints comes through this program where nobody watches a terminal: it would not say
  /// that its own standard output takes no more, as mpirun does not.
  bool output_through_us = false;
  /// Whether it goes on where standard output has lost its reader, since it writes a file, too.
  bool goes_on_unread = false;
  /// Hears its number as soon as it is there.
  std::function<void(pid_t pid)> on_started = [](pid_t) {};
  /// What the kernel sends it if this program ends before it.
  int signal_of_parents_death = SIGKILL;
};

struct ChildEnd {
  int pid = 0;               ///< which it had
  int status = 0;            ///< as waitpid's
  bool was_stopped = false;  ///< by this program, since others had ended
  int lost_output_by = 0;    ///< see `ChildCommand::output_through_us`: errno; 0: nothing was lost
};

/// A child was ended by a signal of somebody else: the run may be repeated.
class ChildKilled : public Error {
 public:
  explicit ChildKilled(std::string sentence) : Error(ErrorKind::execution, std::move(sentence)) {}
};

/// What a line of a child means for all of them.
enum class Heard { nothing, begun, failed, finished, stuck };

/// Runs them side by side, each in a process group of its own and without standard input, and hands
/// what they say on their standard error to `hear`, line by line, which says what a line means.
/// Once a failure, or that all is done, is heard, or one has failed, the others have `patience` to
/// end, and two seconds
/// once the first of them has ended; then they are killed. So are all that have not begun within
/// `longest_start`. Those that are stuck are asked to end by SIGTERM, and killed 2 s later. The
/// first SIGINT or SIGTERM is passed on to each of them; a second kills them; so does standard
/// output that takes no more of what comes through this program. Throws Error (execution) with
/// `not_found` if the program cannot be started.
std::vector<ChildEnd> run_commands(const std::vector<ChildCommand>& commands,
                                   const Interrupt& interrupt,
                                   const std::function<Heard(const std::string& line)>& hear,
                                   std::chrono::milliseconds patience,
                                   std::optional<std::chrono::milliseconds> longest_start,
                                   const std::string& not_found);

/// Holds signals back from this thread while a process is forked: what is sent to the child before
/// it has put off this program's handlers waits, instead of being heard by a copy of them that
/// nobody asks.
class SignalsHeldBack {
 public:
  SignalsHeldBack();
  ~SignalsHeldBack() { let_go(); }
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;
  /// Those that waited arrive. For the child, too, between fork and exec.
  void let_go() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// In a child that has just been forked by `parent`: the kernel sends it `signal` when that one
/// ends; false if it has ended already.
bool tie_to_parent(int signal, pid_t parent);

/// "was killed by signal 9 (Killed)"; empty if it was not.
std::string killed_by(int status);
/// The exit code, or 128 and the signal.
int code_of(int status);

}  // namespace stagecraft
