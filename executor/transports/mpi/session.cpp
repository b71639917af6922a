#include "executor/transports/mpi/session.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <thread>
#include <utility>

#include "executor/transports/mpi/clocks.hpp"

namespace stagecraft::mpi {

namespace {

using namespace std::chrono_literals;

constexpr auto patience = 5s;  ///< with others that are to stop

/// Tags of the communicator for alarms.
enum AlarmTag : int { reason_tag, verdict_tag, arrival_tag, farewell_tag };

/// A sentence on its way; small enough to be sent without anybody's help.
struct Alarm {
  int world = 0;
  std::array<char, 3000> sentence{};
};

std::shared_ptr<Alarm> make_alarm(int world, const std::string& sentence) {
  auto alarm = std::make_shared<Alarm>();
  alarm->world = world;
  sentence.copy(alarm->sentence.data(), alarm->sentence.size() - 1);
  return alarm;
}

template <class T>
Piece piece_of(const std::shared_ptr<T>& value, int peer, int tag) {
  return {.peer = peer, .tag = tag, .data = value.get(), .bytes = sizeof *value, .owner = value};
}

constexpr auto nothing_more = [] {};

/// Whether each process of this machine may have one core to compute and one to poll.
bool has_two_cores(MPI_Comm communicator) {
  MPI_Comm machine = MPI_COMM_NULL;
  check(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine),
        "find the processes of this machine");
  int processes = 1;
  check(MPI_Comm_size(machine, &processes), "count the processes");
  check(MPI_Comm_free(&machine), "find the processes of this machine");
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) >= 2 * processes;
}

}  // namespace

Session::Session()
    : progress_([this] { start(); },
                [this](const std::string& why) {
                  // Somebody else must wait for the verdict: this is the thread that hears it.
                  std::thread([this, why] { abort(why); }).detach();
                }) {}

void Session::start() {
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "start");
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "start");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "number the processes");
  check(MPI_Comm_size(MPI_COMM_WORLD, &count_), "count the processes");
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> words{};
  int length = 0;
  check(MPI_Get_library_version(words.data(), &length), "name itself");
  library_ = std::string(words.data(), static_cast<std::size_t>(length));
  library_ = library_.substr(0, library_.find(','));
  check(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "duplicate a communicator");
  check(MPI_Comm_dup(MPI_COMM_WORLD, &alarms_), "duplicate a communicator");
  clock_ = offset_of_clock(control_);
  control_messenger_ = std::make_shared<Messenger>(progress_, manner_of_environment(), control_);
  alarm_messenger_ = std::make_shared<Messenger>(progress_, Manner{}, alarms_);
  if (count_ > 1 && has_two_cores(control_)) progress_.set_pace(Pace::polls);
  hear_alarms();
  if (rank_ == 0) hear_arrivals();
  if (rank_ != 0) hear_farewell();
}

// --- Failures
// ------------------------------------------------------------------------------------

/// Rank 0 hears reasons, all others verdicts; one after the other.
void Session::hear_alarms() {
  const auto alarm = std::make_shared<Alarm>();
  const int from = rank_ == 0 ? MPI_ANY_SOURCE : 0;
  const int tag = rank_ == 0 ? reason_tag : verdict_tag;
  alarm_messenger_->receive(piece_of(alarm, from, tag), [this, alarm](bool) {
    hear_alarms();
    if (rank_ == 0) return decide(alarm->world, alarm->sentence.data());
    hear_verdict(alarm->world, alarm->sentence.data());
  });
}

/// On rank 0's progress thread.
void Session::decide(int world, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (verdicts_.contains(world)) return;
  }
  for (int rank = 1; rank < count_; ++rank) {
    const auto alarm = make_alarm(world, reason);
    alarm_messenger_->send(piece_of(alarm, rank, verdict_tag), nothing_more);
  }
  hear_verdict(world, reason);
}

void Session::hear_verdict(int world, const std::string& reason) {
  std::shared_ptr<World> here;
  {
    const std::lock_guard lock(mutex_);
    verdicts_.try_emplace(world, reason);
    if (world_->number == world) here = world_;
    changed_.notify_all();
  }
  if (here) here->abort(reason);
}

std::string Session::abort(World& world, const std::string& reason) {
  Lock lock(mutex_);
  if (!verdicts_.contains(world.number)) {
    progress_.soon([this, number = world.number, reason] {
      if (rank_ == 0) return decide(number, reason);
      alarm_messenger_->send(piece_of(make_alarm(number, reason), 0, reason_tag), nothing_more);
    });
  }
  const bool heard = changed_.wait_for(
      lock, patience, [&] { return verdicts_.contains(world.number) || farewell_; });
  if (farewell_) return reason;
  if (heard) return verdicts_.at(world.number);
  lock.unlock();
  std::fprintf(stderr, "error: %s (and rank 0 does not answer)\n", reason.c_str());
  end_by_force(exit_code(ErrorKind::execution));
}

void Session::end_by_force(int exit_code) {
  progress_.now([&] { MPI_Abort(alarms_, exit_code); });
  std::_Exit(exit_code);
}

// --- Worlds
// --------------------------------------------------------------------------------------

void Session::enter_next_world() {
  const std::lock_guard lock(mutex_);
  world_ = std::make_shared<World>(world_->number + 1);
  const auto verdict = verdicts_.find(world_->number);
  if (verdict != verdicts_.end()) world_->aborted = verdict->second;
  used_ = false;
}

/// All processes, before the next world has its transports.
Conversation Session::lobby() {
  if (used_) enter_next_world();
  return {progress_, world_, control_messenger_, rank_, count_};
}

std::vector<std::string> Session::gather(std::string said) {
  return lobby().gather(said, 2 * world_->number);
}

std::string Session::broadcast(std::string said) {
  return lobby().broadcast(std::move(said), 2 * world_->number);
}

std::vector<std::unique_ptr<Transport>> Session::make_transports(const Wiring& wiring) {
  if (wiring.ranks > count_) {
    throw Error(ErrorKind::usage, concat("--transport mpi: the run has ", wiring.ranks,
                                         " ranks, but there are ", count_, " processes"));
  }
  if (used_) enter_next_world();
  used_ = true;
  if (rank_ >= wiring.ranks) return {};
  // Making a communicator waits for all; by now all are there.
  Conversation(progress_, world_, control_messenger_, rank_, wiring.ranks)
      .barrier(2 * world_->number);
  MPI_Comm data = MPI_COMM_NULL, control = MPI_COMM_NULL;
  progress_.now([&] {
    MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    check(MPI_Comm_group(control_, &all), "list the processes");
    std::vector<int> ranks(static_cast<std::size_t>(wiring.ranks));
    std::iota(ranks.begin(), ranks.end(), 0);
    check(MPI_Group_incl(all, wiring.ranks, ranks.data(), &members), "list the ranks");
    check(MPI_Comm_create_group(control_, members, 0, &data), "connect the ranks");
    check(MPI_Comm_set_errhandler(data, MPI_ERRORS_RETURN), "connect the ranks");
    check(MPI_Comm_dup(data, &control), "connect the ranks");
    check(MPI_Group_free(&members), "list the ranks");
    check(MPI_Group_free(&all), "list the processes");
  });
  std::vector<std::unique_ptr<Transport>> transports;
  transports.push_back(make_transport(wiring, data, control, rank_, *this, progress_, world_));
  return transports;
}

// --- The end
// -------------------------------------------------------------------------------------

void Session::hear_arrivals() {
  const auto nothing = std::make_shared<char>();
  alarm_messenger_->receive(piece_of(nothing, MPI_ANY_SOURCE, arrival_tag), [this](bool) {
    hear_arrivals();
    const std::lock_guard lock(mutex_);
    ++arrived_;
    changed_.notify_all();
  });
}

void Session::hear_farewell() {
  const auto code = std::make_shared<int>();
  alarm_messenger_->receive(piece_of(code, 0, farewell_tag), [this, code](bool) {
    const std::lock_guard lock(mutex_);
    farewell_ = *code;
    changed_.notify_all();
  });
}

int Session::part(int exit_code) {
  progress_.set_pace(Pace::dozes);
  if (rank_ == 0) {
    await_others(exit_code);
  } else {
    progress_.soon([this] {
      const auto nothing = std::make_shared<char>();
      alarm_messenger_->send(piece_of(nothing, 0, arrival_tag), nothing_more);
    });
    Lock lock(mutex_);
    changed_.wait(lock, [&] { return farewell_.has_value(); });
    exit_code = *farewell_;
  }
  progress_.end([] { MPI_Finalize(); });
  return exit_code;
}

/// Whoever still waits for rank 0 stops; those that do not even hear that are ended.
void Session::await_others(int exit_code) {
  if (exit_code != 0) abort(*world_, "rank 0 has ended");
  {
    Lock lock(mutex_);
    const auto all_here = [&] { return arrived_ == count_ - 1; };
    const bool stops = exit_code != 0 || !verdicts_.empty();
    if (!stops) changed_.wait(lock, all_here);
    if (stops && !changed_.wait_for(lock, patience, all_here)) {
      lock.unlock();
      end_by_force(exit_code);
    }
  }
  const auto left = std::make_shared<int>(count_ - 1);
  progress_.soon([this, exit_code, left] {
    for (int rank = 1; rank < count_; ++rank) {
      const auto code = std::make_shared<int>(exit_code);
      alarm_messenger_->send(piece_of(code, rank, farewell_tag), [this, left] {
        const std::lock_guard lock(mutex_);
        --*left;
        changed_.notify_all();
      });
    }
  });
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return *left == 0; });
}

}  // namespace stagecraft::mpi

/// The entry point of the module.
extern "C" stagecraft::Processes* stagecraft_mpi_processes() {
  static auto* const session = new stagecraft::mpi::Session;
  return session;
}
