// A run in several processes: which transport it uses, who starts the processes, and how they speak
// with one voice.

#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/transports/processes.hpp"
#include "executor/transports/transport.hpp"
#include "tools/command.hpp"
#include "tools/console.hpp"
#include "tools/launch/interrupt.hpp"

namespace stagecraft {

struct ProcessOptions {
  std::string transport;     ///< empty: what fits how this process was started
  int processes = 0;         ///< -n; 0: as many as the plan has devices
  std::string hosts;         ///< --hosts, as mpirun takes them; empty: this machine
  std::string verb;          ///< that starts them: begins what is told of them
  bool writes_file = false;  ///< -o: nobody has to read standard output
};

/// --transport, -n and --hosts.
void declare_process_options(CLI::App& app, ProcessOptions& options);

/// Throws Error (usage) for an unknown name, and for options or processes that do not go with it.
const TransportMaker& transport_of(const ProcessOptions& options);

/// Throws Error (usage) unless the transport carries what lies where the layers are computed;
/// `gpu_flag` computes them on GPUs: "--backend cuda".
void require_carried(const TransportMaker& transport, bool on_gpus, std::string_view gpu_flag);

/// Throws Error (usage) unless the transport makes these sums, "ordered" or "nccl".
void require_sums(const TransportMaker& transport, std::string_view sums);

/// Whether this process still has to start those that will run.
bool must_start_processes(const TransportMaker& transport);

/// Runs this very command line, and `further` words, in `ranks` processes, through mpirun for
/// MPI and for other hosts; the exit code is theirs. Throws Error (usage) if another number was
/// asked for, Error (execution) if the transport or mpirun is missing, ChildKilled if something
/// ended a process from outside before the run had said its result. The first SIGINT or SIGTERM
/// reaches all of them. `on_finished` is told the exit code as soon as the result has been said.
int start_processes(
    const ProcessOptions& options, const TransportMaker& transport, int ranks,
    const std::vector<std::string>& further, const Interrupt& interrupt,
    const std::function<void(int)>& on_finished = [](int) {});

/// Whether this process prints and writes files: alone, or as rank 0.
bool speaks();

/// Where processes fail before they could meet, rank 0 says why, and its end makes mpirun end all.
/// Should it have nothing to say, the others do, two seconds later.
int rank_0_first(const std::function<int()>& body);

/// Does `body` as one of several processes that were started together, with a console that is quiet
/// unless the process speaks. A failure is told once, and all return rank 0's exit code.
int run_together(Console& console, const std::function<int(Console&)>& body);

/// All processes, before they begin: see `require_agreement`. Says how well the clocks of several
/// machines agree.
void meet(Console& console, std::span<const Fact> facts);

/// Throws Error (usage) unless there is a process for each of the run's ranks.
void require_process_per_rank(int ranks);

}  // namespace stagecraft
