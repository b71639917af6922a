#include "tools/launch/supervisor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <thread>

#include "executor/checkpoints/checkpoint.hpp"
#include "executor/flight/diagnosis.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "tools/launch/interrupt.hpp"
#include "tools/launch/own_command_line.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view failure_file = "failure";
constexpr Duration look_every = 500ms;
constexpr Duration own_delay = 1s;

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
[[noreturn]] void become(const std::vector<std::string>& arguments, pid_t parent) {
  std::vector<char*> words;
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent) execv("/proc/self/exe", words.data());
  _exit(exit_code(ErrorKind::bug));
}

/// A run in a process group of its own, which is gone when this is.
class Child {
 public:
  explicit Child(const std::vector<std::string>& arguments) {
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) {
      throw Error(ErrorKind::execution, concat("cannot start a process: ", std::strerror(errno)));
    }
    if (pid_ == 0) become(arguments, parent);
    setpgid(pid_, pid_);
  }
  ~Child() { kill_all(); }
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
  void interrupt() const { kill(-pid_, SIGINT); }
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
};

class Supervisor {
 public:
  Supervisor(Console& console, const Supervision& supervision)
      : console_(console), supervision_(supervision), arguments_(own_command_line()) {
    remove_option(arguments_, "--restarts");
  }

  int run() {
    std::string before;
    for (int restarts = 0;; ++restarts) {
      clear_folder();
      const int code = attempt(restarts);
      if (!failure_) return code;
      // What fails twice in the same words would fail for ever.
      const bool again = failure_->comes_again || failure_->sentence == before;
      before = failure_->sentence;
      if (again || restarts == supervision_.restarts || interrupt_.interrupted()) {
        throw Error(ErrorKind::execution, last_words(restarts));
      }
      console_.warn(concat(before, "; restart ", restarts + 1, " of ", supervision_.restarts, ", ",
                           beginning()));
    }
  }

 private:
  std::optional<std::filesystem::path> checkpoint() const {
    if (supervision_.checkpoints.empty()) return {};
    return latest_checkpoint(supervision_.checkpoints);
  }

  std::string beginning() const {
    const auto last = checkpoint();
    return last ? concat("from ", last->string()) : "from the beginning";
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
    for (int rank = 0;
         std::filesystem::remove(supervision_.folder / flight_file_name(rank), none);) {
      ++rank;
    }
  }

  std::vector<std::string> arguments(int restarts) const {
    std::vector<std::string> all = arguments_;
    if (restarts > 0 && checkpoint()) {
      remove_option(all, "--resume");
      all.insert(all.end(), {"--resume", supervision_.checkpoints.string()});
    }
    all.insert(all.end(), {"--supervised", supervision_.folder.string(), "--attempt",
                           std::to_string(restarts)});
    return all;
  }

  /// The exit code; `failure_` says how it failed, unless it has said so itself.
  int attempt(int restarts) {
    failure_.reset();
    began_ = now();
    Child child(arguments(restarts));
    bool told = false;
    Moment next_look = began_;
    for (; !child.ended(); std::this_thread::sleep_for(10ms)) {
      if (interrupt_.interrupted() && !std::exchange(told, true)) child.interrupt();
      // Who has been stopped too lets the run wake up first.
      if (now() > next_look + own_delay) next_look = now() + own_delay;
      if (now() < next_look) continue;
      next_look = now() + look_every;
      if (const auto silence = silent()) {
        failure_ = Failure{.sentence = *silence};
        child.kill_all();
        return exit_code(ErrorKind::execution);
      }
    }
    return judge(*child.ended());
  }

  /// What a run that was stopped from outside cannot say itself.
  std::optional<std::string> silent() const {
    const std::vector<Sight> sights = sights_in(supervision_.folder);
    for (const Sight& sight : sights) {
      const bool is_late = sight.at - sight.record.heartbeat > longest_silence;
      if (!sight.silent || !is_late || sight.record.heartbeat < began_) continue;
      const Diagnosis diagnosis = diagnose(sights);
      if (diagnosis.verdict == Verdict::silent) return diagnosis.sentence;
    }
    return {};
  }

  int judge(int status) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const std::filesystem::path told = supervision_.folder / failure_file;
    const std::vector<Sight> sights = sights_in(supervision_.folder);
    if (std::filesystem::exists(told)) {
      const bool comes_again = std::ranges::any_of(
          sights, [](const Sight& s) { return s.record.cause == Cause::not_finite; });
      failure_ = Failure{.sentence = read_file(told), .comes_again = comes_again || sights.empty()};
    } else if (code > 128 && code != 130) {
      failure_ = Failure{.sentence = killed(sights, code - 128)};
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
  const Supervision& supervision_;
  std::vector<std::string> arguments_;
  Interrupt interrupt_;
  Moment began_{0};
  std::optional<Failure> failure_;
};

}  // namespace

int supervise(Console& console, const Supervision& supervision) {
  return Supervisor(console, supervision).run();
}

void tell_supervisor(const std::filesystem::path& folder, const std::string& sentence) {
  write_file(folder / failure_file, sentence);
}

}  // namespace stagecraft
