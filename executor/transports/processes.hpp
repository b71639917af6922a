// Several processes that mpirun, srun or torchrun started for one run, a rank each.
//
//   rank 0   start │ agree │ make_transports … conduct … │ prints, writes │ part → exit code
//   others   start │ agree │ make_transports … conduct … │ quiet            part → the same exit
//   code
//
// Whoever fails, however early, says so to rank 0, which tells all others: one sentence, once.

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/transports/transport.hpp"
#include "profiles/error.hpp"
#include "simulator/values/program.hpp"

namespace stagecraft {

/// What a launcher has told this process.
struct Launch {
  std::string_view launcher;   ///< "mpirun", "mpiexec", "srun", "torchrun"
  std::string_view transport;  ///< how what it starts can meet: "mpi", "tcp"
  int rank = 0;
  int processes = 1;
};

/// From the environment; nothing if this process was not started as one of several. Throws Error
/// (usage) for a rank that is none of them.
std::optional<Launch> launch();

class Processes {
 public:
  virtual ~Processes() = default;

  virtual int rank() const = 0;
  virtual int count() const = 0;
  /// What carries messages: "Open MPI v4.1.4", "TCP".
  virtual std::string library() const = 0;
  /// Of this process's clock against rank 0's.
  virtual ClockOffset clock() const = 0;

  /// As Transport's; also before there is any.
  virtual std::vector<std::string> gather(std::string said) = 0;
  virtual std::string broadcast(std::string said) = 0;

  /// This process's rank, or none if the wiring has fewer ranks than there are processes. All
  /// processes call it. Throws Error (usage) if there are more ranks.
  virtual std::vector<std::unique_ptr<Transport>> make_transports(const Wiring& wiring) = 0;

  /// Makes the others stop with this sentence, wherever they are; returns the one they stop with.
  virtual std::string abort(const std::string& reason) = 0;

  /// The last call: waits for all the others, and returns rank 0's exit code.
  virtual int part(int exit_code) = 0;
};

/// Another process of the run has gone, or is silent: something outside of the run did that to it,
/// and it may be repeated.
class PeerLost : public Error {
 public:
  explicit PeerLost(std::string sentence) : Error(ErrorKind::execution, std::move(sentence)) {}
};

/// Meets the other processes, at the first call, as their launcher allows: by MPI, or by TCP.
/// Throws Error (execution) if some do not come, if this program was built without MPI, or if MPI
/// sees other processes than the launcher announced.
Processes& launched_processes();

/// What must be the same everywhere, and what to do where it is not.
struct Fact {
  std::string name;
  std::string value;
  std::string remedy;
};

/// Throws Error (input) on every process, with the first fact that some rank has otherwise than
/// rank 0. All processes call it.
void require_agreement(Processes& processes, std::span<const Fact> facts);

/// Bytes that are equal for equal programs: what a rank of one relies on.
std::string program_hash(const Program& program);

}  // namespace stagecraft
