#include "tools/launch/supervisor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "executor/checkpoints/checkpoint.hpp"
#include "executor/flight/diagnosis.hpp"
#include "executor/transports/processes.hpp"
#include "executor/weights/durable_file.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "tools/launch/child_processes.hpp"
#include "tools/launch/lifeline.hpp"
#include "tools/launch/own_command_line.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view failure_file = "failure";
constexpr std::string_view finished_file = "finished";
/// How long a run that has said how it failed may take to end.
constexpr Duration longest_end_of_failed = 15s;
constexpr Duration look_every = 500ms;
constexpr Duration own_delay = 1s;
/// How long a process may show no pulse before it has flight records: it may pause.
constexpr Duration longest_pause = 10s;
/// How long it may take until a process that has been started shows its pulse.
constexpr Duration longest_awakening = 60s;
/// Ahead of the sentence in the failure file, of what something outside of the run did to it.
constexpr std::string_view killed_mark = "killed: ";
/// And of what would be the same again.
constexpr std::string_view repeated_mark = "again: ";

/// Without an option and its value, in both ways to write them.
void remove_option(std::vector<std::string>& arguments, const std::string& option) {
  for (auto i = arguments.begin(); i != arguments.end();) {
    if (*i == option) {
      i = arguments.erase(i, std::next(i) == arguments.end() ? std::next(i) : std::next(i, 2));
    } else if (i->starts_with(option + "=")) {
      i = arguments.erase(i);
    } else {
      ++i;
    }
  }
}

/// Ends with its parent, whatever ends that.
[[noreturn]] void become(const std::vector<std::string>& arguments, pid_t parent,
                         const SignalsHeldBack& signals) {
  std::vector<char*> words;
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  setpgid(0, 0);
  std::signal(SIGTERM, SIG_DFL);
  // A signal that comes before the new program can hear it must not be lost.
  struct sigaction before {};
  sigaction(SIGINT, nullptr, &before);
  if (before.sa_handler != SIG_IGN) std::signal(SIGINT, SIG_DFL);
  signals.let_go();
  if (tie_to_parent(SIGKILL, parent)) execv("/proc/self/exe", words.data());
  _exit(exit_code(ErrorKind::bug));
}

/// A run in a process group of its own, which is gone when this is.
class Child {
 public:
  explicit Child(const std::vector<std::string>& arguments) {
    const pid_t parent = getpid();
    const SignalsHeldBack held_back;
    pid_ = fork();
    if (pid_ < 0) {
      throw Error(ErrorKind::execution, concat("cannot start a process: ", std::strerror(errno)));
    }
    if (pid_ == 0) become(arguments, parent, held_back);
    setpgid(pid_, pid_);
  }
  ~Child() { kill_all(); }
  pid_t pid() const { return pid_; }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Its status, once it has ended.
  std::optional<int> ended() {
    if (!status_) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
    }
    return status_;
  }
  void pass_on(int signal) const { kill(pid_, signal); }
  void kill_all() {
    kill(-pid_, SIGKILL);
    if (status_) return;
    int status = 0;
    if (waitpid(pid_, &status, 0) == pid_) status_ = status;
  }

 private:
  pid_t pid_ = 0;
  std::optional<int> status_;
};

std::vector<Sight> sights_in(const std::filesystem::path& folder) {
  std::vector<Sight> sights;
  try {
    const Moment at = now();
    for (FlightSnapshot& record : read_flight_records(folder).ranks) {
      sights.push_back(see(std::move(record), at));
    }
  } catch (const Error&) {
    sights.clear();  // the run has not come so far
  }
  return sights;
}

/// How an attempt failed.
struct Failure {
  std::string sentence;
  bool comes_again = false;
  bool from_outside = false;  ///< something killed or stopped it: the same words mean nothing
};

/// Whether the text begins with the mark, which is gone then.
bool take_mark(std::string& text, std::string_view mark) {
  const bool has_mark = text.starts_with(mark);
  if (has_mark) text.erase(0, mark.size());
  return has_mark;
}

/// Whether a run that is repeated ends so again.
bool would_repeat(Cause cause) {
  return cause == Cause::not_finite || cause == Cause::not_written;
}

/// Signals that somebody sends, rather than a fault of the program.
bool is_from_outside(int signal) {
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

bool is_from_outside(const Error& error) {
  return dynamic_cast<const ChildKilled*>(&error) != nullptr ||
         dynamic_cast<const PeerLost*>(&error) != nullptr;
}

bool is_not_written(const Error& error) {
  return dynamic_cast<const NotWritten*>(&error) != nullptr || error.message() == reader_is_gone ||
         error.message() == output_is_gone;
}

class Supervisor {
 public:
  Supervisor(Console& console, const Interrupt& interrupt, const Supervision& supervision)
      : console_(console),
        interrupt_(interrupt),
        supervision_(supervision),
        arguments_(own_command_line()) {
    remove_option(arguments_, "--restarts");
  }

  int run() {
    std::string before;
    for (int restarts = 0;; ++restarts) {
      clear_folder();
      const int code = attempt(restarts);
      if (!failure_) return code;
      // What fails twice in the same words would fail for ever.
      const bool again =
          failure_->comes_again || (!failure_->from_outside && failure_->sentence == before);
      before = failure_->sentence;
      if (again || restarts == supervision_.restarts || interrupt_.interrupted()) {
        throw Error(ErrorKind::execution, last_words(restarts));
      }
      find_checkpoint();
      console_.warn(concat(before, "; restart ", restarts + 1, " of ", supervision_.restarts, ", ",
                           beginning()));
    }
  }

 private:
  /// The newest that is whole, and what is wrong with newer ones.
  void find_checkpoint() {
    if (supervision_.checkpoints.empty()) return;
    const WholeCheckpoint found = newest_whole_checkpoint(supervision_.checkpoints);
    const std::string all = all_are_damaged(supervision_.checkpoints, found);
    if (!all.empty()) console_.warn(all);
    for (std::size_t i = all.empty() ? 0 : 1; i < found.problems.size(); ++i)
      console_.warn(found.problems[i]);
    checkpoint_ = found.folder;
  }

  std::string beginning() const {
    return checkpoint_ ? concat("from ", checkpoint_->string()) : "from the beginning";
  }

  std::string last_words(int restarts) const {
    if (restarts == 0) return failure_->sentence;
    return concat(failure_->sentence, " (after ", restarts,
                  restarts == 1 ? " restart)" : " restarts)");
  }

  void clear_folder() const {
    std::error_code none;
    std::filesystem::create_directories(supervision_.folder, none);
    std::filesystem::remove(supervision_.folder / failure_file, none);
    std::filesystem::remove(supervision_.folder / finished_file, none);
    for (int rank = 0;
         std::filesystem::remove(supervision_.folder / flight_file_name(rank), none);) {
      ++rank;
    }
    for (const std::filesystem::path& file : pulse_files()) std::filesystem::remove(file, none);
  }

  std::vector<std::string> arguments(int restarts) const {
    std::vector<std::string> all = arguments_;
    if (restarts > 0 && checkpoint_) {
      remove_option(all, "--resume");
      all.insert(all.end(), {"--resume", checkpoint_->string()});
    }
    all.insert(all.end(), {"--supervised", supervision_.folder.string(), "--attempt",
                           std::to_string(restarts)});
    return all;
  }

  /// The exit code; `failure_` says how it failed, unless it has said so itself.
  int attempt(int restarts) {
    failure_.reset();
    began_ = now();
    stopped_since_.clear();
    failed_at_.reset();
    Child child(arguments(restarts));
    announce_pulse(supervision_.folder, child.pid(), "");
    bool told = false;
    Moment next_look = began_;
    for (; !child.ended(); std::this_thread::sleep_for(10ms)) {
      if (interrupt_.interrupted() && !std::exchange(told, true))
        child.pass_on(interrupt_.signal());
      // Who has been stopped too lets the run wake up first.
      if (now() > next_look + own_delay) next_look = now() + own_delay;
      if (now() < next_look) continue;
      next_look = now() + look_every;
      if (has_failed_long_ago()) child.kill_all();
      if (const auto silence = silent(child.pid())) {
        child.kill_all();
        // Behind its last word, nothing was lost with it.
        if (finished()) break;
        failure_ = Failure{.sentence = *silence, .comes_again = false, .from_outside = true};
        return exit_code(ErrorKind::execution);
      }
    }
    return judge(*child.ended());
  }

  bool has_failed_long_ago() {
    if (!failed_at_ && std::filesystem::is_regular_file(supervision_.folder / failure_file))
      failed_at_ = now();
    return failed_at_ && now() - *failed_at_ > longest_end_of_failed;
  }

  /// What a run that was stopped from outside cannot say itself.
  std::optional<std::string> silent(pid_t child) {
    const std::vector<Sight> sights = sights_in(supervision_.folder);
    for (const Sight& sight : sights) {
      const bool is_late = sight.at - sight.record.heartbeat > longest_silence;
      if (!sight.silent || !is_late || sight.record.heartbeat < began_) continue;
      const Diagnosis diagnosis = diagnose(sights);
      if (diagnosis.verdict == Verdict::silent) return diagnosis.sentence;
    }
    if (auto sentence = silent_process(sights)) return sentence;
    return sights.empty() ? stopped_process(child) : std::nullopt;
  }

  /// Before the run has begun: one that has not come to show a pulse, or that is not ours to do so.
  std::optional<std::string> stopped_process(pid_t child) {
    const Moment at = now();
    const std::map<pid_t, std::string> stopped = stopped_below(child);
    std::erase_if(stopped_since_, [&](const auto& seen) { return !stopped.contains(seen.first); });
    for (const auto& [pid, name] : stopped) {
      const Duration since = at - stopped_since_.try_emplace(pid, at).first->second;
      if (since <= longest_silence) continue;
      return concat("the run has not begun: ", pid, " (", name,
                    "), one of its processes, was stopped ", format_duration(since), " ago");
    }
    return {};
  }

  std::vector<std::filesystem::path> pulse_files() const {
    std::vector<std::filesystem::path> files;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(supervision_.folder, none)) {
      const bool is_pulse = entry.path().filename().string().starts_with(pulse_prefix);
      if (is_pulse && entry.is_regular_file(none)) files.push_back(entry.path());
    }
    return files;
  }

  /// The exit code of a run that has said all that it had to say.
  std::optional<int> finished() const {
    const std::filesystem::path file = supervision_.folder / finished_file;
    int code = 0;
    if (std::filesystem::is_regular_file(file) && std::ifstream(file) >> code) return code;
    return {};
  }

  /// A process that stands still and whose flight record cannot tell: it has none yet, it is not a
  /// rank, or its rank is through.
  std::optional<std::string> silent_process(const std::vector<Sight>& sights) const {
    const Moment at = now();
    for (const std::filesystem::path& file : pulse_files()) {
      const auto pulse = read_pulse(file);
      if (!pulse) continue;
      const auto rank = std::ranges::find(sights, pulse->pid,
                                          [](const Sight& sight) { return sight.record.pid; });
      const bool is_watched = rank != sights.end() && rank->record.doing != Doing::ended;
      const bool is_there = kill(pulse->pid, 0) == 0;
      if (is_watched || !is_there || at - pulse->at <= patience_with(*pulse)) continue;
      const std::string who = pulse->process.empty() ? std::string("its process ")
                                                     : concat(pulse->process, "'s process ");
      const std::string since =
          concat(pulse->pid, is_stopped(pulse->pid) ? " was stopped " : " has been silent for ",
                 format_duration(at - pulse->at), is_stopped(pulse->pid) ? " ago" : "");
      if (rank != sights.end()) {
        return concat(rank->record.name, " is silent: its process ", since,
                      ", when its steps were done");
      }
      return concat(sights.empty() ? "the run has not begun: " : "the run does not end: ", who,
                    since);
    }
    const Duration taken = at - began_;
    if (sights.empty() && taken > supervision_.longest_start) {
      return concat("the run has not begun to train within ", format_duration(taken),
                    ", which is 20 times --deadline");
    }
    return {};
  }

  /// One that was stopped for sure is not waited for as one that may only be busy.
  static Duration patience_with(const Pulse& pulse) {
    if (is_stopped(pulse.pid)) return longest_silence;
    return pulse.beats ? longest_pause : longest_awakening;
  }

  int judge(int status) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (const auto code_of_run = finished()) return *code_of_run;
    const std::filesystem::path told = supervision_.folder / failure_file;
    if (interrupt_.interrupted() && !std::filesystem::is_regular_file(told)) {
      if (!WIFSIGNALED(status)) return code;
      // Before it could say anything itself.
      std::fputs(concat("error: ", interrupt_.words(), " before the first step\n").c_str(), stderr);
      return interrupt_.exit_code();
    }
    const std::vector<Sight> sights = sights_in(supervision_.folder);
    if (std::filesystem::is_regular_file(told)) {
      std::string sentence = read_file(told);
      const bool killed = take_mark(sentence, killed_mark);
      const bool repeats = take_mark(sentence, repeated_mark) || sights.empty() ||
                           std::ranges::any_of(sights, [](const Sight& sight) {
                             return would_repeat(sight.record.cause);
                           });
      failure_ = Failure{.sentence = std::move(sentence),
                         .comes_again = !killed && repeats,
                         .from_outside = killed};
    } else if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      failure_ = Failure{.sentence = killed(sights, signal),
                         .comes_again = false,
                         .from_outside = is_from_outside(signal)};
    }
    return code;
  }

  /// "rank 3 (stage 1, replica 1) was killed by signal 9 during B1.5 in step 12".
  static std::string killed(const std::vector<Sight>& sights, int signal) {
    const std::string by = concat(" was killed by signal ", signal, " (", strsignal(signal), ") ");
    if (sights.empty()) return concat("the run", by, "before its first step");
    const Diagnosis diagnosis = diagnose(sights);
    const auto found = std::ranges::find_if(sights, [&](const Sight& sight) {
      return diagnosis.rank && sight.record.rank == *diagnosis.rank;
    });
    const Sight& sight = found == sights.end() ? sights.front() : *found;
    return concat(sight.record.name, by, describe_moment(sight.record));
  }

  Console& console_;
  const Interrupt& interrupt_;
  const Supervision& supervision_;
  std::vector<std::string> arguments_;
  std::optional<std::filesystem::path> checkpoint_;  ///< from which the next attempt goes on
  Moment began_{0};
  std::map<pid_t, Moment> stopped_since_;  ///< when it was first seen so
  std::optional<Moment> failed_at_;        ///< when this attempt was first seen to have failed
  std::optional<Failure> failure_;
};

}  // namespace

int supervise(Console& console, const Interrupt& interrupt, const Supervision& supervision) {
  return Supervisor(console, interrupt, supervision).run();
}

void tell_supervisor(const std::filesystem::path& folder, const Error& error) {
  const bool killed = is_from_outside(error);
  std::error_code none;
  if (!killed && std::filesystem::exists(folder / failure_file, none)) {
    const std::string before = read_file(folder / failure_file);
    if (before.starts_with(killed_mark) || before.starts_with(repeated_mark)) return;
  }
  write_file(
      folder / failure_file,
      concat(killed ? killed_mark : "", is_not_written(error) ? repeated_mark : "", error.what()));
}

void tell_supervisor_as_launcher(const std::filesystem::path& folder, const Error& error) {
  std::error_code none;
  // The result that rank 0 has said has not come out.
  if (is_not_written(error)) std::filesystem::remove(folder / finished_file, none);
  if (is_from_outside(error) || !std::filesystem::exists(folder / failure_file, none))
    tell_supervisor(folder, error);
}

void tell_finished(const std::filesystem::path& folder, int code) {
  write_file(folder / finished_file, concat(code, "\n"));
}

}  // namespace stagecraft
