// Several processes that mpirun, srun or torchrun started for one run, a rank each.
//
//   rank 0   start │ agree │ make_transports … conduct … │ prints, writes │ part → exit code
//   others   start │ agree │ make_transports … conduct … │ quiet            part → the same exit
//   code
//
// A process that fails, however early, reports to rank 0, which tells all others, so that one
// sentence is printed once.

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

/// The settings that a launcher passed to this process.
struct Launch {
  std::string_view launcher;   ///< "mpirun", "mpiexec", "srun", "torchrun"
  std::string_view transport;  ///< how the started processes can connect: "mpi", "tcp"
  int rank = 0;
  int processes = 1;
};

/// Reads the launch from the environment; nothing if this process was not started as one of
/// several. Throws Error (usage) for a rank that is out of range.
std::optional<Launch> launch();

class Processes {
 public:
  virtual ~Processes() = default;

  virtual int rank() const = 0;
  virtual int count() const = 0;
  /// The library that carries messages: "Open MPI v4.1.4", "TCP".
  virtual std::string library() const = 0;
  /// Offset of this process's clock from rank 0's.
  virtual ClockOffset clock() const = 0;

  /// As `Transport::gather`, also before there is a transport.
  virtual std::vector<std::string> gather(std::string said) = 0;
  virtual std::string broadcast(std::string said) = 0;

  /// The transport of this process's rank; empty if the wiring has fewer ranks than there are
  /// processes. Every process must call it. Throws Error (usage) if there are more ranks than
  /// processes.
  virtual std::vector<std::unique_ptr<Transport>> make_transports(const Wiring& wiring) = 0;

  /// Stops all other processes with this sentence, in any state; returns the sentence that they
  /// stop with.
  virtual std::string abort(const std::string& reason) = 0;

  /// The last call: waits for all other processes, and returns rank 0's exit code.
  virtual int part(int exit_code) = 0;
};

/// Another process of the run has ended or is silent, for a reason outside of the run, which may be
/// repeated.
class PeerLost : public Error {
 public:
  explicit PeerLost(std::string sentence) : Error(ErrorKind::execution, std::move(sentence)) {}
};

/// Connects to the other processes at the first call, by MPI or TCP as their launcher allows.
/// Throws Error (execution) if some are missing, if this program was built without MPI, or if MPI
/// finds other processes than the launcher announced.
Processes& launched_processes();

/// A value that must be equal on all processes, with a remedy if it is not.
struct Fact {
  std::string name;
  std::string value;
  std::string remedy;
};

/// Throws Error (input) on every process, with the first fact in which some rank differs from rank
/// 0. Every process must call it.
void require_agreement(Processes& processes, std::span<const Fact> facts);

/// A hash of everything in a program that its ranks rely on; equal programs have equal hashes.
std::string program_hash(const Program& program);

}  // namespace stagecraft
