#include "tools/launch/processes_of_run.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <regex>
#include <thread>
#include <vector>

#include "executor/driver/host.hpp"
#include "executor/driver/modules.hpp"
#include "executor/transports/tcp/socket.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "tools/launch/child_processes.hpp"
#include "tools/launch/own_command_line.hpp"

namespace stagecraft {
namespace {

/// How this process was started, if as one of several.
std::optional<Launch> launch_of_several() {
  const auto started = launch();
  return started && started->processes > 1 ? started : std::nullopt;
}

const TransportMaker& transport_named(std::string_view name) {
  std::vector<std::string> names;
  for (const TransportMaker& maker : transport_makers) {
    if (maker.name == name) return maker;
    names.emplace_back(maker.name);
  }
  fail_unknown("transport", name, names);
}

/// This very command line.
std::vector<std::string> own_words(const std::vector<std::string>& further) {
  std::vector<std::string> words = own_command_line();
  words.front() = std::filesystem::canonical("/proc/self/exe").string();
  words.insert(words.end(), further.begin(), further.end());
  return words;
}

/// Tells a process that this program has started it, and is to end with it.
constexpr const char* started_here = "STAGECRAFT_STARTED_HERE";
/// How long the others may take to end in good order when one has failed.
constexpr auto patience_with_others = std::chrono::seconds(8);

// --- Starting mpirun
// -----------------------------------------------------------------------------

/// A rank has a thread that computes and one that moves messages, so none is bound to one core.
ChildCommand mpirun_command(const ProcessOptions& options, int ranks,
                            const std::vector<std::string>& further) {
  std::vector<std::string> words{"mpirun",          "-n",        std::to_string(ranks),
                                 "--oversubscribe", "--bind-to", "none"};
  if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
  if (!options.hosts.empty()) words.insert(words.end(), {"--host", options.hosts});
  const std::vector<std::string> own = own_words(further);
  words.insert(words.end(), own.begin(), own.end());
  return {.words = std::move(words), .environment = {}};
}

/// What Open MPI itself says, in blocks between lines of dashes or behind "[host:pid] ", apart from
/// what the ranks say. The ranks' errors wait for the end: where one of them was killed, those of
/// the others only follow from it.
class Remarks {
 public:
  void hear(const std::string& line) {
    if (line.starts_with("-----")) {
      inside_ = !inside_;
    } else if (inside_ || is_marked(line)) {
      remarks_ += line + "\n";
    } else if (ranks_spoke() || line.starts_with("error: ")) {
      errors_ += line + "\n";
    } else {
      std::fputs((line + "\n").c_str(), stderr);
    }
  }
  const std::string& remarks() const { return remarks_; }
  bool ranks_spoke() const { return !errors_.empty(); }
  void show_errors() const { std::fputs(errors_.c_str(), stderr); }

 private:
  static bool is_marked(const std::string& line) {
    static const std::regex mark("\\[[^\\]]*:[0-9]+\\] .*");
    return std::regex_match(line, mark);
  }

  bool inside_ = false;
  std::string errors_;
  std::string remarks_;
};

/// "rank 1 on node-2 was killed by signal 9 (Killed)", as mpirun tells it; empty if it does not.
std::string killed_process(const std::string& remarks) {
  static const std::regex pattern(
      "process rank ([0-9]+) with PID [0-9]+ on node ([^ ]+) exited\\s+on signal ([0-9]+)");
  std::smatch match;
  if (!std::regex_search(remarks, match, pattern)) return "";
  return concat("rank ", match[1].str(), " on ", match[2].str(), " was killed by signal ",
                match[3].str());
}

int start_by_mpirun(const ProcessOptions& options, const TransportMaker& transport, int ranks,
                    const std::vector<std::string>& further) {
  const std::string asked_for = concat("--transport ", transport.name);
  module_entry("mpi", "stagecraft_mpi_carrier", asked_for);  // else no rank could start
  Remarks remarks;
  const std::vector<ChildEnd> ends = run_commands(
      {mpirun_command(options, ranks, further)},
      [&](const std::string& line) { remarks.hear(line); }, patience_with_others,
      concat(asked_for,
             ": there is no mpirun on the path; sudo apt-get install openmpi-bin, or --transport "
             "tcp does without, or --transport threads runs all ranks in one process"));
  const int code = code_of(ends.front().status);
  const std::string killed = killed_process(remarks.remarks());
  if (!killed.empty()) {
    throw Error(ErrorKind::execution,
                concat(options.verb, ": ", killed, "; mpirun has ended the others"));
  }
  remarks.show_errors();
  if (code == 0 || remarks.ranks_spoke() || code == 130) return code;
  std::string said = remarks.remarks();
  std::ranges::replace(said, '\n', ' ');
  throw Error(ErrorKind::execution, concat(options.verb, ": mpirun ended with ", code, ": ", said));
}

// --- Starting processes here
// ---------------------------------------------------------------------

/// On this machine, as torchrun would; they meet on a port that was free a moment ago.
std::vector<ChildCommand> local_commands(int ranks, const std::vector<std::string>& further) {
  const auto listener = tcp::listen_on(0);
  if (!listener) throw Error(ErrorKind::execution, "--transport tcp: no port is free");
  std::vector<ChildCommand> commands;
  for (int rank = 0; rank < ranks; ++rank) {
    commands.push_back({.words = own_words(further),
                        .environment = {concat("RANK=", rank), concat("WORLD_SIZE=", ranks),
                                        concat("LOCAL_RANK=", rank), "MASTER_ADDR=127.0.0.1",
                                        concat("MASTER_PORT=", tcp::port_of(*listener)),
                                        std::string(started_here) + "=1"}});
  }
  return commands;
}

int start_here(const ProcessOptions& options, int ranks, const std::vector<std::string>& further) {
  Remarks remarks;
  const std::vector<ChildEnd> ends = run_commands(
      local_commands(ranks, further), [&](const std::string& line) { remarks.hear(line); },
      patience_with_others, concat(options.verb, ": this program cannot start itself again"));
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    const std::string killed = killed_by(ends[rank].status);
    if (killed.empty() || ends[rank].was_stopped) continue;
    throw Error(ErrorKind::execution, concat(options.verb, ": rank ", rank, " on ", host_name(),
                                             " ", killed, "; the others have stopped"));
  }
  remarks.show_errors();
  return code_of(ends.front().status);
}

// --- Speaking with one voice
// ---------------------------------------------------------------------

std::optional<Error> failure_of(const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::execution, "this machine's memory is exhausted");
  } catch (const std::exception& error) {
    return Error(ErrorKind::bug,
                 concat("unexpected: ", error.what(), " (this is a bug in stagecraft)"));
  }
}

}  // namespace

void declare_process_options(CLI::App& app, ProcessOptions& options) {
  options.verb = app.get_name();
  app.add_option("--transport", options.transport,
                 "Transport: threads runs every rank as a thread of this process; mpi starts a "
                 "process per rank by mpirun; tcp starts them without MPI; nccl starts them with a "
                 "GPU each (threads; mpi under mpirun and srun, tcp under torchrun)")
      ->type_name("NAME");
  app.add_option("-n,--processes", options.processes,
                 "Number of processes to start with mpi, tcp or nccl (one per device of the plan)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--hosts", options.hosts,
                 "Hosts to start the processes on, as for mpirun --host: a:2,b:2 (this machine)")
      ->type_name("HOSTS");
}

const TransportMaker& transport_of(const ProcessOptions& options) {
  const auto started = launch_of_several();
  const bool several = started || options.processes > 0 || !options.hosts.empty();
  const TransportMaker& maker =
      transport_named(!options.transport.empty() ? std::string_view(options.transport)
                      : started                  ? started->transport
                      : several                  ? "mpi"
                                                 : "threads");
  const bool meets = !started || maker.on_gpus || started->transport == maker.name;
  if (maker.several_processes && !meets) {
    fail_usage("--transport ", maker.name, ": what ", started->launcher, " starts meets by ",
               started->transport, "; leave --transport out");
  }
  if (maker.several_processes) return maker;
  if (started) {
    fail_usage("--transport ", maker.name, " runs all ranks in one process, but ",
               started->launcher, " has started ", started->processes,
               "; start one, or use --transport mpi");
  }
  if (options.processes > 0 || !options.hosts.empty()) {
    fail_usage("-n and --hosts are about processes, but --transport ", maker.name,
               " runs all ranks in one; use --transport mpi");
  }
  return maker;
}

void require_carried(const TransportMaker& transport, bool on_gpus, std::string_view gpu_flag) {
  if (transport.on_gpus && !on_gpus) {
    fail_usage("--transport ", transport.name, " carries what lies on GPUs; use ", gpu_flag,
               " with it, or --transport mpi");
  }
  if (on_gpus && transport.several_processes && !transport.on_gpus) {
    fail_usage("--transport ", transport.name,
               " carries what lies in the memory of processes, not of GPUs; use --transport nccl "
               "for a process per GPU, or --transport threads for one process");
  }
}

void require_sums(const TransportMaker& transport, std::string_view sums) {
  if (sums != "nccl" || transport.on_gpus) return;
  fail_usage("--sums nccl: --transport ", transport.name,
             " has no sums but ordered ones; use --transport nccl with it");
}

bool must_start_processes(const TransportMaker& transport) {
  return transport.several_processes && !launch();
}

int start_processes(const ProcessOptions& options, const TransportMaker& transport, int ranks,
                    const std::vector<std::string>& further) {
  if (options.processes > 0 && options.processes != ranks) {
    fail_usage("-n ", options.processes, ": the plan has ", ranks,
               " devices, and each is a process; leave -n out, or say -n ", ranks);
  }
  if (transport.name == "tcp" && !options.hosts.empty()) {
    fail_usage(
        "--hosts: --transport tcp starts processes on this machine only; elsewhere start them with "
        "torchrun, or use --transport mpi");
  }
  if (transport.on_gpus) require_nccl();  // else no rank could start
  const bool needs_mpi = transport.name == "mpi" || !options.hosts.empty();
  return needs_mpi ? start_by_mpirun(options, transport, ranks, further)
                   : start_here(options, ranks, further);
}

bool speaks() {
  const auto started = launch();
  return !started || started->rank == 0;
}

int rank_0_first(const std::function<int()>& body) {
  try {
    return body();
  } catch (...) {
    using namespace std::chrono_literals;
    if (!speaks()) std::this_thread::sleep_for(2s);
    throw;
  }
}

int run_together(Console& console, const std::function<int(Console&)>& body) {
  if (std::getenv(started_here) != nullptr) prctl(PR_SET_PDEATHSIG, SIGKILL);
  Processes& processes = launched_processes();
  CommonOptions silent = console.options();
  silent.json = false;
  silent.quiet = true;
  silent.output.clear();
  Console nobody("run", silent);
  int code = 0;
  if (const auto error = failure_of([&] { code = body(speaks() ? console : nobody); })) {
    code = speaks() ? console.error(*error) : exit_code(error->kind());
    processes.abort(concat("rank ", processes.rank(), " on ", host_name(), ": ", error->what()));
  } else if (code != 0 && !speaks()) {
    processes.abort(concat("rank ", processes.rank(), " on ", host_name(), " ended with ", code));
  }
  return processes.part(code);
}

void meet(Console& console, std::span<const Fact> facts) {
  Processes& processes = launched_processes();
  require_agreement(processes, facts);
  const std::vector<std::string> errors =
      processes.gather(std::to_string(processes.clock().error.count()));
  Duration worst{0};
  for (const std::string& error : errors) worst = std::max(worst, Duration{std::stoll(error)});
  if (worst > Duration{0}) {
    console.note(
        concat("times on other hosts are known to ", format_duration(worst), " or better"));
  }
}

void require_process_per_rank(int ranks) {
  const auto started = launch();
  if (!started || started->processes == ranks) return;
  fail_usage("the plan has ", ranks, " devices, and each is a process, but ", started->launcher,
             " has started ", started->processes, "; start ", ranks);
}

}  // namespace stagecraft
