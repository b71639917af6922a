// Two runs that want one folder of checkpoints, in every order in which their calls to the system
// can follow each other, and with one of them killed at any of these.

#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "executor/checkpoints/folder_lock.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Work that goes on, from one pause to the next, when it is told to: on a stack of its own, for
/// threads would wait for a busy machine at every pause.
class SteppedWork {
 public:
  explicit SteppedWork(std::function<void()> work) : work_(std::move(work)), stack_(256 << 10) {
    getcontext(&own_);
    own_.uc_stack.ss_sp = stack_.data();
    own_.uc_stack.ss_size = stack_.size();
    own_.uc_link = &caller_;
    // Its arguments are numbers.
    const auto address = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&own_, reinterpret_cast<void (*)()>(begin), 2, static_cast<unsigned>(address >> 32),
                static_cast<unsigned>(address));
  }
  SteppedWork(const SteppedWork&) = delete;
  SteppedWork& operator=(const SteppedWork&) = delete;

  void pause() { swapcontext(&own_, &caller_); }
  void go() { swapcontext(&caller_, &own_); }
  bool is_done() const { return is_done_; }

 private:
  static void begin(unsigned high, unsigned low) {
    auto* const work = reinterpret_cast<SteppedWork*>(std::uintptr_t{high} << 32 | low);
    work->work_();
    work->is_done_ = true;
  }

  std::function<void()> work_;
  std::vector<char> stack_;
  ucontext_t own_{}, caller_{};
  bool is_done_ = false;
};

/// A run that takes the folder if it is free, and gives it back, so often. It pauses ahead of each
/// call, and when it holds the folder.
class ContendingRun final : public LockCalls {
 public:
  ContendingRun(const std::filesystem::path& folder, int times)
      : work_([this, folder, times] {
          for (int i = 0; i < times && !is_killed_; ++i) want(folder);
        }) {}

  int open(const char* path) override {
    if (!goes_on()) return -1;
    const int descriptor = LockCalls::open(path);
    if (descriptor >= 0) open_.insert(descriptor);
    return descriptor;
  }
  int lock(int descriptor) override { return goes_on() ? LockCalls::lock(descriptor) : -1; }
  bool is_of_name(int descriptor, const char* path) override {
    return goes_on() && LockCalls::is_of_name(descriptor, path);
  }
  int remove(const char* path) override { return goes_on() ? LockCalls::remove(path) : -1; }
  int close(int descriptor) override {
    if (!goes_on()) return -1;
    open_.erase(descriptor);
    return LockCalls::close(descriptor);
  }

  void go() { work_.go(); }
  /// It makes no call any more, and the system closes what it has open.
  void kill() {
    is_killed_ = true;
    holds_ = false;
    for (const int descriptor : std::exchange(open_, {})) LockCalls::close(descriptor);
    while (!work_.is_done()) work_.go();
  }
  bool is_done() const { return work_.is_done(); }
  bool is_killed() const { return is_killed_; }
  bool holds() const { return holds_; }
  bool has_held() const { return has_held_; }

 private:
  void want(const std::filesystem::path& folder) {
    try {
      const FolderLock lock(folder, *this, 0ms);
      if (is_killed_) return;
      holds_ = has_held_ = true;
      work_.pause();
      holds_ = false;
    } catch (const Error&) {
      // Another one has it.
    }
  }
  bool goes_on() {
    if (!is_killed_) work_.pause();
    errno = EWOULDBLOCK;  // of what a killed one asks
    return !is_killed_;
  }

  bool is_killed_ = false, holds_ = false, has_held_ = false;
  std::set<int> open_;
  SteppedWork work_;  ///< last: it uses the others
};

/// How the two begin.
enum class Beginning {
  both_come,           ///< the first may be killed
  second_has_and_will  ///< it holds the folder, and will want it again
};

enum class Turn { first_goes, second_goes, first_is_killed };

std::vector<Turn> possible_turns(Beginning beginning, const ContendingRun& first,
                                 const ContendingRun& second) {
  std::vector<Turn> turns;
  if (!first.is_done()) turns.push_back(Turn::first_goes);
  if (!second.is_done()) turns.push_back(Turn::second_goes);
  if (!first.is_done() && beginning == Beginning::both_come) turns.push_back(Turn::first_is_killed);
  return turns;
}

void take(Turn turn, ContendingRun& first, ContendingRun& second) {
  switch (turn) {
    case Turn::first_goes: return first.go();
    case Turn::second_goes: return second.go();
    case Turn::first_is_killed: return first.kill();
  }
}

/// One order, by the number of the turn that is chosen at each point; behind its end always the
/// first. What was chosen, and among how many.
std::vector<std::pair<std::size_t, std::size_t>> contend(const std::filesystem::path& folder,
                                                         Beginning beginning,
                                                         const std::vector<std::size_t>& order) {
  ContendingRun first(folder, 1), second(folder, beginning == Beginning::both_come ? 1 : 2);
  while (beginning == Beginning::second_has_and_will && !second.holds()) second.go();
  std::vector<std::pair<std::size_t, std::size_t>> chosen;
  bool both_held = false;
  while (true) {
    const std::vector<Turn> turns = possible_turns(beginning, first, second);
    if (turns.empty()) break;
    const std::size_t choice = chosen.size() < order.size() ? order[chosen.size()] : 0;
    chosen.emplace_back(choice, turns.size());
    take(turns[choice], first, second);
    both_held = both_held || (first.holds() && second.holds());
  }
  CHECK_FALSE(both_held);
  CHECK((first.has_held() || second.has_held() || first.is_killed()));
  CHECK(message_of([&] { const FolderLock next(folder, lock_calls(), 0ms); }) == "");
  CHECK_FALSE(std::filesystem::exists(folder / ".lock"));
  return chosen;
}

}  // namespace

TEST_CASE("a folder has one owner in whatever order two runs want it, and is free behind them",
          "[seconds]") {
#ifdef STAGECRAFT_WATCHED
  SKIP("sanitizers do not follow from one stack to the other");
#endif
  // In memory, for a disk would be busy with the names for seconds.
  const char* set = std::getenv("TMPDIR");
  const std::string before = set != nullptr ? set : "";
  if (access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 1);
  const TemporaryFolder folder;
  before.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before.c_str(), 1);
  const auto beginning = GENERATE(Beginning::both_come, Beginning::second_has_and_will);
  std::vector<std::size_t> order;
  int orders = 0;
  while (true) {
    auto chosen = contend(folder.path(), beginning, order);
    ++orders;
    while (!chosen.empty() && chosen.back().first + 1 == chosen.back().second) chosen.pop_back();
    if (chosen.empty()) break;
    ++chosen.back().first;
    order.clear();
    for (const auto& [choice, among] : chosen) order.push_back(choice);
  }
  CHECK(orders > 500);
}
