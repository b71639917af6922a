// Runs of the program in processes of their own, for tests that kill and stop them.

#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdlib>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "executor/flight/snapshot.hpp"
#include "profiles/error.hpp"

namespace stagecraft::tests {

inline std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

inline int lines_with(const std::string& text, const std::string& words) {
  int count = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) count += line.find(words) != line.npos;
  return count;
}

/// A zombie has ended.
inline bool is_running(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return static_cast<bool>(file >> number >> name >> state) && state != "Z" && state != "X";
}

/// `stagecraft …` in a folder, with what it prints in files there.
class ProgramRun {
 public:
  ProgramRun(std::filesystem::path folder, const std::vector<std::string>& words)
      : folder_(std::move(folder)) {
    std::vector<std::string> all{STAGECRAFT_PROGRAM};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (std::string& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const std::string output = (folder_ / "output").string(),
                      errors = (folder_ / "errors").string();
    ::setenv("STAGECRAFT_PROGRESS", "never", 1);  // how long it takes is no part of what it says
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    dup2(open(output.c_str(), flags, 0644), STDOUT_FILENO);
    dup2(open(errors.c_str(), flags, 0644), STDERR_FILENO);
    if (chdir(folder_.c_str()) == 0) execv(arguments[0], arguments.data());
    _exit(99);
  }
  ~ProgramRun() {
    if (code_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;

  int pid() const { return pid_; }

  /// Its exit code; 128 + the signal that killed it.
  int wait() {
    int status = 0;
    if (!code_ && waitpid(pid_, &status, 0) == pid_) {
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return *code_;
  }
  std::string output() const { return text_of(folder_ / "output"); }
  std::string errors() const { return text_of(folder_ / "errors"); }

 private:
  std::filesystem::path folder_;
  pid_t pid_ = 0;
  std::optional<int> code_;
};

/// The record of a rank that has come to this step (from 0), or nothing if that takes too long.
inline std::optional<FlightSnapshot> await_step(const std::filesystem::path& records, int rank,
                                                int step, int not_pid = 0) {
  using namespace std::chrono_literals;
  const Moment start = now();
  while (now() - start < 60s) {
    try {
      FlightSnapshot record = read_flight_record(records / flight_file_name(rank));
      if (record.step.value_or(-1) >= step && record.pid != not_pid) return record;
    } catch (const Error&) {
      // It is not there yet.
    }
    std::this_thread::sleep_for(1ms);
  }
  return {};
}

/// Within this time, whether none of them is running.
inline bool all_end(const std::vector<int>& pids, Duration within) {
  using namespace std::chrono_literals;
  const Moment start = now();
  while (now() - start < within) {
    if (std::ranges::none_of(pids, is_running)) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

}  // namespace stagecraft::tests
