// Programs that this one starts, listens to and waits for.

#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace stagecraft {

struct ChildCommand {
  std::vector<std::string> words;        ///< the program first, looked for on the path
  std::vector<std::string> environment;  ///< "NAME=value", besides what this program has
};

struct ChildEnd {
  int status = 0;            ///< as waitpid's
  bool was_stopped = false;  ///< by this program, since others had ended
};

/// Runs them side by side and hands what they say on their standard error to `hear`, line by line.
/// Once one has failed, the others have `patience` to end, and two seconds once the first of them
/// has ended; then they are killed. Ctrl-C reaches them too, and they end in good order: it does
/// not end this program meanwhile. Throws Error (execution) with `not_found` if the program cannot
/// be started.
std::vector<ChildEnd> run_commands(const std::vector<ChildCommand>& commands,
                                   const std::function<void(const std::string& line)>& hear,
                                   std::chrono::milliseconds patience,
                                   const std::string& not_found);

/// "was killed by signal 9 (Killed)"; empty if it was not.
std::string killed_by(int status);
/// The exit code, or 128 and the signal.
int code_of(int status);

}  // namespace stagecraft
