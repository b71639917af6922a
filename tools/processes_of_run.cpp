#include "tools/processes_of_run.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <regex>
#include <thread>
#include <vector>

#include "executor/modules.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "tools/own_command_line.hpp"

namespace stagecraft {
namespace {

/// How this process was started, if as one of several.
std::optional<Launch> launch_of_several() {
  const auto started = launch();
  return started && started->processes > 1 ? started : std::nullopt;
}

const TransportMaker& transport_named(const std::string& name) {
  std::vector<std::string> names;
  for (const TransportMaker& maker : transport_makers) {
    if (maker.name == name) return maker;
    names.emplace_back(maker.name);
  }
  fail_unknown("transport", name, names);
}

// --- Starting mpirun
// -----------------------------------------------------------------------------

/// A rank has a thread that computes and one that moves messages, so none is bound to one core.
std::vector<std::string> mpirun_command(const ProcessOptions& options, int ranks,
                                        const std::vector<std::string>& further) {
  std::vector<std::string> words{"mpirun",          "-n",        std::to_string(ranks),
                                 "--oversubscribe", "--bind-to", "none"};
  if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
  if (!options.hosts.empty()) words.insert(words.end(), {"--host", options.hosts});
  std::vector<std::string> own = own_command_line();
  own.front() = std::filesystem::canonical("/proc/self/exe").string();
  words.insert(words.end(), own.begin(), own.end());
  words.insert(words.end(), further.begin(), further.end());
  return words;
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

/// Ctrl-C reaches mpirun too, and the ranks end in good order: whoever waits for them goes on
/// waiting.
class LeavesSignalsToChild {
 public:
  LeavesSignalsToChild() : before_(std::signal(SIGINT, SIG_IGN)) {}
  ~LeavesSignalsToChild() { std::signal(SIGINT, before_); }
  LeavesSignalsToChild(const LeavesSignalsToChild&) = delete;
  LeavesSignalsToChild& operator=(const LeavesSignalsToChild&) = delete;

 private:
  void (*before_)(int);
};

/// Runs a command whose errors we read; returns its status, or throws Error (execution).
int run_command(const std::vector<std::string>& words, std::string_view asked_for,
                Remarks& remarks) {
  int ends[2];
  if (pipe(ends) != 0) throw Error(ErrorKind::execution, "cannot make a pipe to mpirun");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t interrupts;  // ignored here, not there
  sigemptyset(&interrupts);
  sigaddset(&interrupts, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &interrupts);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failure =
      posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[1]);
  if (failure != 0) {
    close(ends[0]);
    throw Error(ErrorKind::execution,
                concat(asked_for,
                       ": there is no mpirun on the path; sudo apt-get install openmpi-bin, or "
                       "--transport threads runs all ranks in one process"));
  }
  std::FILE* errors = fdopen(ends[0], "r");
  std::string line;
  for (int c = std::fgetc(errors); c != EOF; c = std::fgetc(errors)) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    remarks.hear(line);
    line.clear();
  }
  if (!line.empty()) remarks.hear(line);
  std::fclose(errors);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// --- Speaking with one voice
// ---------------------------------------------------------------------

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

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
  app.add_option(
         "--transport", options.transport,
         "threads: every rank is a thread of this process; mpi: every rank is a process, "
         "which mpirun starts; nccl: the same with a GPU each (threads, or mpi under mpirun "
         "and srun)")
      ->type_name("NAME");
  app.add_option(
         "-n,--processes", options.processes,
         "Start so many processes through mpirun (with mpi and nccl: one per device of the plan)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--hosts", options.hosts,
                 "Start them there, as mpirun --host takes it: a:2,b:2 (this machine)")
      ->type_name("HOSTS");
}

const TransportMaker& transport_of(const ProcessOptions& options) {
  const auto started = launch_of_several();
  const bool several = started || options.processes > 0 || !options.hosts.empty();
  const TransportMaker& maker = transport_named(!options.transport.empty() ? options.transport
                                                : several                  ? "mpi"
                                                                           : "threads");
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

bool must_start_processes(const TransportMaker& transport) {
  return transport.several_processes && !launch();
}

int start_processes(const ProcessOptions& options, const TransportMaker& transport, int ranks,
                    const std::vector<std::string>& further) {
  if (options.processes > 0 && options.processes != ranks) {
    fail_usage("-n ", options.processes, ": the plan has ", ranks,
               " devices, and each is a process; leave -n out, or say -n ", ranks);
  }
  // Else no rank could start.
  const std::string asked_for = concat("--transport ", transport.name);
  module_entry("mpi", "stagecraft_mpi_processes", asked_for);
  if (transport.on_gpus) require_nccl();
  const LeavesSignalsToChild patience;
  Remarks remarks;
  const int status = run_command(mpirun_command(options, ranks, further), asked_for, remarks);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  const std::string killed = killed_process(remarks.remarks());
  if (!killed.empty()) {
    throw Error(ErrorKind::execution, concat("run: ", killed, "; mpirun has ended the others"));
  }
  remarks.show_errors();
  if (code == 0 || remarks.ranks_spoke() || code == 130) return code;
  std::string said = remarks.remarks();
  std::ranges::replace(said, '\n', ' ');
  throw Error(ErrorKind::execution, concat("run: mpirun ended with ", code, ": ", said));
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
  Processes& processes = mpi_processes();
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
  Processes& processes = mpi_processes();
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
