// A run in several processes: its transport, the start of its processes, and their common output.

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
  std::string transport;     ///< empty: chosen by how this process was started
  int processes = 0;         ///< -n; 0: the number of the plan's devices
  std::string hosts;         ///< --hosts, in mpirun's format; empty: this machine
  std::string verb;          ///< verb that starts them, used as prefix of messages
  bool writes_file = false;  ///< -o is given, so standard output need not have a reader
};

/// --transport, -n and --hosts.
void declare_process_options(CLI::App& app, ProcessOptions& options);

/// The transport's row. Throws Error (usage) for an unknown name, and for options or processes that
/// do not match it.
const TransportMaker& transport_of(const ProcessOptions& options);

/// Throws Error (usage) unless the transport carries tensors of the device that computes the
/// layers; `gpu_flag` is the flag for GPUs: "--backend cuda".
void require_carried(const TransportMaker& transport, bool on_gpus, std::string_view gpu_flag);

/// Throws Error (usage) unless the transport supports these sums, "ordered" or "nccl".
void require_sums(const TransportMaker& transport, std::string_view sums);

/// Whether this process must start the processes of the run.
bool must_start_processes(const TransportMaker& transport);

/// Runs this command line, with the words `further` added, in `ranks` processes, through mpirun for
/// MPI and for other hosts; returns their exit code. Throws Error (usage) if another number was
/// requested, Error (execution) if the transport or mpirun is missing, ChildKilled if a process was
/// ended from outside before the run had printed its result. The first SIGINT or SIGTERM is passed
/// to all of them. `on_finished` is called with the exit code as soon as the result has been
/// printed.
int start_processes(
    const ProcessOptions& options, const TransportMaker& transport, int ranks,
    const std::vector<std::string>& further, const Interrupt& interrupt,
    const std::function<void(int)>& on_finished = [](int) {});

/// Whether this process prints and writes files: if it is the only one, or rank 0.
bool speaks();

/// Runs the body so that, if processes fail before they connect, rank 0 prints the reason, and its
/// end makes mpirun end all. If rank 0 does not fail, the others print theirs two seconds later.
int rank_0_first(const std::function<int()>& body);

/// Runs the body as one of several processes that were started together, with a quiet console
/// unless the process `speaks`. A failure is printed once, and all return rank 0's exit code.
int run_together(Console& console, const std::function<int(Console&)>& body);

/// To be called by all processes before they begin: checks that the facts agree (see
/// `require_agreement`), and notes how well the clocks of several machines agree.
void meet(Console& console, std::span<const Fact> facts);

/// Throws Error (usage) unless the number of processes equals the number of ranks.
void require_process_per_rank(int ranks);

}  // namespace stagecraft
