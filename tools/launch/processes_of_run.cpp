#include "tools/launch/processes_of_run.hpp"

#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <regex>
#include <system_error>
#include <thread>
#include <vector>

#include "executor/driver/host.hpp"
#include "executor/driver/modules.hpp"
#include "executor/transports/tcp/authentication.hpp"
#include "executor/transports/tcp/socket.hpp"
#include "executor/weights/durable_file.hpp"
#include "profiles/error.hpp"
#include "profiles/machine_memory.hpp"
#include "profiles/text.hpp"
#include "tools/launch/child_processes.hpp"
#include "tools/launch/files_of_mpirun.hpp"
#include "tools/launch/lifeline.hpp"
#include "tools/launch/own_command_line.hpp"
#include "tools/launch/supervisor.hpp"
#include "tools/system_refusal.hpp"

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

/// How long processes may take to meet: longer than their transports' own patience, which say more.
constexpr auto patience_with_meeting = std::chrono::seconds(180);
/// How long the others may take to end in good order when one has failed.
constexpr auto patience_with_others = std::chrono::seconds(8);
/// Until all ranks have met: mpirun waits without end for a host that does not answer.
constexpr auto patience_with_mpirun = std::chrono::seconds(130);

// --- What every process needs
// --------------------------------------------------------------------

/// Of libraries, threads and a small model. Processes have the limits of who starts them, and with
/// less they would end in many ways, one after the other.
constexpr Bytes space_of_process = Bytes{680} << 20;
constexpr Bytes space_of_process_with_mpi = Bytes{880} << 20;

void require_space(const std::string& verb, Bytes least) {
  if (const Bytes left = left_address_space(); left < least) {
    throw Error(ErrorKind::infeasible,
                concat(verb, ": a process of a run needs about ", format_bytes(least),
                       " of address space, and ", format_bytes(left),
                       " are left to this one; raise its limits (ulimit -v, ulimit -d), or run all "
                       "ranks in one process (--transport threads)"));
  }
}

// --- Starting mpirun
// -----------------------------------------------------------------------------

/// A rank has a thread that computes and one that moves messages, so none is bound to one core.
ChildCommand mpirun_command(const ProcessOptions& options, int ranks,
                            const std::vector<std::string>& further) {
  std::vector<std::string> words{"mpirun",          "-n",        std::to_string(ranks),
                                 "--oversubscribe", "--bind-to", "none"};
  if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
  const std::string launcher = launcher_variable();
  const std::string name = launcher.substr(0, launcher.find('='));
  if (!options.hosts.empty()) words.insert(words.end(), {"--host", options.hosts, "-x", name});
  const std::vector<std::string> own = own_words(further);
  words.insert(words.end(), own.begin(), own.end());
  // A host that cannot be reached is noticed within half a minute, not after eight.
  if (!options.hosts.empty()) {
    for (const auto& [parameter, value] :
         {std::pair{"time", "10"}, {"intvl", "5"}, {"probes", "4"}})
      words.insert(words.begin() + 1, {"--mca", concat("oob_tcp_keepalive_", parameter), value});
  }
  // Asked by a signal, mpirun removes its files and ends its processes on other hosts.
  return {.words = std::move(words),
          .environment = {launcher},
          .passes_on_user_signals = true,
          .output_through_us = true,
          .goes_on_unread = options.writes_file,
          .signal_of_parents_death = SIGTERM};
}

/// What rank 0 tells who has started it, with the exit code behind it, when it has said all else.
constexpr std::string_view finished_words = "stagecraft has finished with ";
/// And when all ranks are there.
constexpr std::string_view met_words = "stagecraft has met";
/// And each rank every `tells_every` until then, with its number behind it.
constexpr std::string_view waits_words = "stagecraft waits as rank ";
constexpr auto tells_every = std::chrono::seconds(1);
/// How long one may be silent while others wait for it.
constexpr auto patience_with_silent = std::chrono::seconds(25);
/// And any rank, when one that it was about to meet has gone or is silent, ahead of its error.
constexpr std::string_view lost_words = "stagecraft has lost a rank";

/// What Open MPI itself says, in blocks between lines of dashes or behind "[host:pid] ", apart from
/// what the ranks say. The ranks' first error waits for the end: where one of them was killed, it
/// only follows from that.
class Remarks {
 public:
  Remarks(std::function<void(int)> on_finished, int ranks)
      : ranks_(ranks), on_finished_(std::move(on_finished)) {}

  /// What this line means for the run as a whole.
  Heard hear(const std::string& line) {
    take(line);
    if (!silent_rank_.empty()) return Heard::stuck;
    if (ranks_spoke() || mpirun_ends_all(line)) return Heard::failed;
    // One that was stopped behind its last word would keep all the others waiting.
    if (finished_) return Heard::finished;
    return line == met_words ? Heard::begun : Heard::nothing;
  }
  bool has_met() const { return has_met_; }
  const std::string& remarks() const { return remarks_; }
  bool told_interrupt() const { return told_interrupt_; }
  bool ranks_spoke() const { return !errors_.empty(); }
  /// What a rank said of another that it has missed; empty if nothing of that kind.
  std::string lost_rank() const {
    constexpr std::string_view beginning = "error: ";
    if (!has_lost_rank_ || !ranks_spoke()) return "";
    return errors_.substr(beginning.size(), errors_.find('\n') - beginning.size());
  }
  /// "rank 1 has been silent …", where others wait for it to meet them; empty if nobody has.
  const std::string& silent_rank() const { return silent_rank_; }
  void show_errors() const { std::fputs(errors_.c_str(), stderr); }
  /// The exit code of a run that has said all that it had to say, whatever ended its processes
  /// afterwards.
  std::optional<int> finished() const { return ranks_spoke() ? std::nullopt : finished_; }

 private:
  void take(const std::string& line) {
    if (!silent_rank_.empty()) return;  // what follows from that
    if (line.starts_with(finished_words)) {
      finished_ = std::atoi(line.c_str() + finished_words.size());
      on_finished_(*finished_);
    } else if (line == met_words) {
      has_met_ = true;
    } else if (line.starts_with(waits_words)) {
      note_waiting(std::atoi(line.c_str() + waits_words.size()));
    } else if (line == lost_words) {
      has_lost_rank_ = true;
    } else if (line.starts_with("-----")) {
      inside_ = !inside_;
    } else if (inside_ || is_marked(line)) {
      remarks_ += line + "\n";
    } else if (line.starts_with("error: ")) {
      is_first_ = errors_.empty();
      if (is_first_) errors_ += line + "\n";
    } else if (ranks_spoke()) {
      if (is_first_) errors_ += line + "\n";
    } else {
      told_interrupt_ = told_interrupt_ || line.find("interrupted by signal") != line.npos;
      std::fputs((line + "\n").c_str(), stderr);
    }
  }
  /// A rank that was stopped on its way says nothing, and MPI waits for it without end. Where all
  /// were stopped for a while, it takes a moment until each has been heard again.
  void note_waiting(int rank) {
    using std::chrono::seconds;
    const auto at = std::chrono::steady_clock::now();
    if (heard_.empty()) first_heard_ = at;
    heard_[rank] = at;
    suspected_.erase(rank);
    for (int other = 0; other < ranks_ && silent_rank_.empty(); ++other) {
      const auto found = heard_.find(other);
      const auto since = at - (found == heard_.end() ? first_heard_ : found->second);
      if (since < patience_with_silent) continue;
      if (at - suspected_.try_emplace(other, at).first->second < 2 * tells_every) continue;
      silent_rank_ = concat(
          "rank ", other, found == heard_.end() ? " has not come within " : " has been silent for ",
          std::chrono::duration_cast<seconds>(since).count(),
          " s, and the others wait for it; was it stopped, or is its host or network down?");
    }
  }

  /// By the first words of the blocks in which Open MPI says so.
  static bool mpirun_ends_all(const std::string& line) {
    constexpr std::array beginnings{"mpirun noticed that", "mpirun detected that",
                                    "MPI_ABORT was invoked", "ORTE has lost communication"};
    return std::ranges::any_of(beginnings,
                               [&](const char* words) { return line.starts_with(words); });
  }

  static bool is_marked(const std::string& line) {
    if (line.starts_with("*** ")) return true;  // before MPI has begun
    static const std::regex mark("(\\[[^\\]]*:[0-9]+\\]|mpirun:) .*");
    return std::regex_match(line, mark);
  }

  int ranks_ = 0;
  using Times = std::map<int, std::chrono::steady_clock::time_point>;
  Times heard_;      ///< when each rank said last that it waits
  Times suspected_;  ///< since when those that are silent are missed
  std::chrono::steady_clock::time_point first_heard_;
  std::string silent_rank_;
  bool inside_ = false;
  bool is_first_ = false;  ///< what is said belongs to the first error
  bool told_interrupt_ = false;
  std::string errors_;  ///< the first one, with its help
  std::string remarks_;
  std::optional<int> finished_;
  bool has_met_ = false, has_lost_rank_ = false;
  std::function<void(int)> on_finished_;
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

/// Whether Open MPI has said why it ended: warnings say something else.
bool gives_reason(const std::string& remarks) {
  std::istringstream lines(remarks);
  for (std::string line; std::getline(lines, line);) {
    const bool is_warning = line.find("arning") != line.npos;
    if (!is_warning && line.find_first_not_of(" \t\r") != line.npos) return true;
  }
  return false;
}

/// Of the first that has one of its own: those that this program has killed, since the run had
/// failed, have none.
int code_after(const std::vector<ChildEnd>& ends) {
  if (!ends.front().was_stopped) return code_of(ends.front().status);
  const auto failed = std::ranges::find_if(
      ends, [](const ChildEnd& end) { return !end.was_stopped && WIFEXITED(end.status); });
  const int code = failed == ends.end() ? 0 : code_of(failed->status);
  return code == 0 ? exit_code(ErrorKind::execution) : code;
}

/// The exit code of a run whose launcher was interrupted; nothing if it failed for another reason.
std::optional<int> interrupted_code(const Interrupt& interrupt, const Remarks& remarks,
                                    const std::vector<ChildEnd>& ends) {
  if (!interrupt.interrupted()) return {};
  if (!remarks.told_interrupt()) {
    // A rank that was too young to hear the signal ends by it, and the others miss it.
    const bool ended_by_it = std::ranges::any_of(ends, [&](const ChildEnd& end) {
      return !end.was_stopped && WIFSIGNALED(end.status) &&
             WTERMSIG(end.status) == interrupt.signal();
    });
    if (!ended_by_it && code_after(ends) < 128 && remarks.ranks_spoke()) return {};
    std::fputs(concat("error: ", interrupt.words(), " before the first step\n").c_str(), stderr);
  }
  return interrupt.exit_code();
}

int start_by_mpirun(const ProcessOptions& options, const TransportMaker& transport, int ranks,
                    const std::vector<std::string>& further, const Interrupt& interrupt,
                    const std::function<void(int)>& on_finished) {
  const std::string asked_for = concat("--transport ", transport.name);
  module_entry("mpi", "stagecraft_mpi_carrier", asked_for);  // else no rank could start
  require_space(options.verb, space_of_process_with_mpi);
  Remarks remarks(on_finished, ranks);
  const std::vector<ChildEnd> ends = run_commands(
      {mpirun_command(options, ranks, further)}, interrupt,
      [&](const std::string& line) { return remarks.hear(line); }, patience_with_others,
      patience_with_mpirun,
      concat(asked_for,
             ": there is no mpirun on the path; sudo apt-get install openmpi-bin, or --transport "
             "tcp does without, or --transport threads runs all ranks in one process"));
  if (WIFSIGNALED(ends.front().status)) remove_files_of_mpirun(ends.front().pid);
  const int lost_by = ends.front().lost_output_by;
  if (lost_by != 0 && lost_by != EPIPE) throw NotWritten(output_is_gone);
  if (lost_by == EPIPE && !options.writes_file) throw output_error(lost_by);
  if (!remarks.silent_rank().empty())
    throw ChildKilled(concat(options.verb, ": ", remarks.silent_rank()));
  if (const auto finished = remarks.finished()) return *finished;
  const int code = code_after(ends);
  if (const auto interrupted = interrupted_code(interrupt, remarks, ends)) return *interrupted;
  const std::string killed = killed_process(remarks.remarks());
  if (!killed.empty()) {
    throw ChildKilled(concat(options.verb, ": ", killed, "; mpirun has ended the others"));
  }
  const bool has_begun = remarks.has_met() || remarks.ranks_spoke();
  if (ends.front().was_stopped && !has_begun) {
    throw ChildKilled(concat(options.verb, ": mpirun has not brought the ranks together within ",
                             patience_with_mpirun.count(),
                             " s; is a host or a network down, or one of its processes stopped?"));
  }
  const std::string mpirun_killed = killed_by(ends.front().status);
  if (!mpirun_killed.empty() && !ends.front().was_stopped) {
    throw ChildKilled(
        concat(options.verb, ": mpirun ", mpirun_killed, "; its processes have ended"));
  }
  remarks.show_errors();
  // Nothing has ended well that rank 0 did not say so of: mpirun may lose its ranks and end with 0.
  if (code == 0 && remarks.ranks_spoke()) return exit_code(ErrorKind::execution);
  if (code == 0 && !remarks.told_interrupt()) {
    throw ChildKilled(concat(
        options.verb, ": mpirun ended with 0, but ",
        has_begun ? "rank 0 has not said that the run has ended" : "its ranks have never met"));
  }
  if (remarks.ranks_spoke() || remarks.told_interrupt()) return code;
  std::string said = remarks.remarks();
  if (!gives_reason(said)) {
    throw ChildKilled(concat(options.verb, ": mpirun ended with ", code,
                             " and gave no reason, as it does after signal 2 (Interrupt) or signal "
                             "15 (Terminated); its processes have ended"));
  }
  std::ranges::replace(said, '\n', ' ');
  throw Error(ErrorKind::execution, concat(options.verb, ": mpirun ended with ", code, ": ", said));
}

// --- Starting processes here
// ---------------------------------------------------------------------

/// What the run's processes know each other by, and nobody else.
std::string new_secret() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw Error(ErrorKind::execution, "--transport tcp: the system has no random numbers");
  }
  std::string secret;
  for (const unsigned char byte : bytes) secret += fmt::format("{:02x}", byte);
  return secret;
}

/// Shows a rank that has just been started to who supervises this run.
void announce_rank(pid_t pid, int rank) {
  if (const auto folder = folder_of_supervisor())
    announce_pulse(*folder, pid, concat("rank ", rank));
}

/// On this machine, as torchrun would; they meet on a port that was free a moment ago.
std::vector<ChildCommand> local_commands(int ranks, const std::vector<std::string>& further) {
  const auto listener = tcp::listen_on("127.0.0.1", 0);
  const std::string secret = concat(tcp::secret_variable, "=", new_secret());
  if (!listener) throw Error(ErrorKind::execution, "--transport tcp: no port is free");
  std::vector<ChildCommand> commands;
  for (int rank = 0; rank < ranks; ++rank) {
    commands.push_back({.words = own_words(further),
                        .environment = {concat("RANK=", rank), concat("WORLD_SIZE=", ranks),
                                        concat("LOCAL_RANK=", rank), "MASTER_ADDR=127.0.0.1",
                                        concat("MASTER_PORT=", tcp::port_of(*listener)),
                                        launcher_variable(), secret},
                        .on_started = [rank](pid_t pid) { announce_rank(pid, rank); }});
  }
  return commands;
}

int start_here(const ProcessOptions& options, int ranks, const std::vector<std::string>& further,
               const Interrupt& interrupt, const std::function<void(int)>& on_finished) {
  require_space(options.verb, space_of_process);
  Remarks remarks(on_finished, ranks);
  const std::vector<ChildEnd> ends = run_commands(
      local_commands(ranks, further), interrupt,
      [&](const std::string& line) { return remarks.hear(line); }, patience_with_others, {},
      concat(options.verb, ": this program cannot start itself again"));
  if (const auto finished = remarks.finished()) return *finished;
  const int code = code_after(ends);
  if (const auto interrupted = interrupted_code(interrupt, remarks, ends)) return *interrupted;
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    const std::string killed = killed_by(ends[rank].status);
    if (killed.empty() || ends[rank].was_stopped) continue;
    throw ChildKilled(concat(options.verb, ": rank ", rank, " on ", host_name(), " ", killed,
                             "; the others have stopped"));
  }
  if (const std::string lost = remarks.lost_rank(); !lost.empty()) throw ChildKilled(lost);
  remarks.show_errors();
  return code;
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
  } catch (const std::system_error& error) {
    return system_refusal(error);
  } catch (const std::exception& error) {
    return Error(ErrorKind::bug,
                 concat("unexpected: ", error.what(), " (this is a bug in stagecraft)"));
  }
}

/// Meets the others. Some libraries wait for them without end: then this process ends.
Processes& met_processes() {
  std::mutex mutex;
  std::condition_variable changed;
  bool has_met = false;
  const std::jthread guard([&] {
    std::unique_lock lock(mutex);
    const bool tells = started_by_launcher() && launch()->transport == "mpi";
    const auto deadline = std::chrono::steady_clock::now() + patience_with_meeting;
    while (std::chrono::steady_clock::now() < deadline) {
      if (tells) std::fprintf(stderr, "%s%d\n", std::string(waits_words).c_str(), launch()->rank);
      if (changed.wait_for(lock, tells_every, [&] { return has_met; })) return;
    }
    std::fprintf(
        stderr,
        "error: run: rank %d has not met the others within %s; was one of them stopped, or "
        "is a machine or network down?\n",
        launch() ? launch()->rank : 0, format_duration(patience_with_meeting).c_str());
    _exit(exit_code(ErrorKind::execution));
  });
  const auto note_met = [&] {
    const std::lock_guard lock(mutex);
    has_met = true;
    changed.notify_all();
  };
  try {
    Processes& processes = launched_processes();
    note_met();
    return processes;
  } catch (const PeerLost&) {
    note_met();
    if (started_by_launcher()) std::fprintf(stderr, "%s\n", std::string(lost_words).c_str());
    throw;
  } catch (...) {
    note_met();
    throw;
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
                    const std::vector<std::string>& further, const Interrupt& interrupt,
                    const std::function<void(int)>& on_finished) {
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
  return needs_mpi ? start_by_mpirun(options, transport, ranks, further, interrupt, on_finished)
                   : start_here(options, ranks, further, interrupt, on_finished);
}

namespace {

/// By rank 0, when its result has been said: to who has started it and, where its output does not
/// pass through that one, which may have been stopped, to who supervises both.
void tell_finished_to_all(int code) {
  const auto supervisor = folder_of_supervisor();
  if (supervisor && launch()->transport == "tcp") {
    try {
      tell_finished(*supervisor, code);
    } catch (const Error&) {
      // Its launcher tells it, too.
    }
  }
  std::fprintf(stderr, "%s%d\n", std::string(finished_words).c_str(), code);
}

}  // namespace

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
  Processes& processes = met_processes();
  if (speaks() && started_by_launcher())
    std::fprintf(stderr, "%s\n", std::string(met_words).c_str());
  CommonOptions silent = console.options();
  silent.json = false;
  silent.quiet = true;
  silent.output.clear();
  Console nobody("run", silent);
  int code = 0;
  bool is_told = false;
  const auto error = failure_of([&] {
    try {
      code = body(speaks() ? console : nobody);
    } catch (const ToldToSupervisor&) {
      is_told = true;
      throw;
    }
  });
  if (error) {
    code = speaks() && !is_told ? console.error(*error) : exit_code(error->kind());
    processes.abort(concat("rank ", processes.rank(), " on ", host_name(), ": ", error->what()));
  } else if (code != 0 && !speaks()) {
    processes.abort(concat("rank ", processes.rank(), " on ", host_name(), " ended with ", code));
  } else if (speaks() && started_by_launcher() && code != exit_code(ErrorKind::execution)) {
    tell_finished_to_all(code);
  }
  code = processes.part(code);
  // Rank 0 has told our launcher; for a code mpirun would take a second to end who has ended.
  const bool is_interrupted = code > 128 && code != exit_without_reader;
  return is_interrupted && started_by_launcher() ? 0 : code;
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
