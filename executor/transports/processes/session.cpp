#include "executor/transports/processes/session.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "executor/transports/processes/clocks.hpp"
#include "profiles/error.hpp"
#include "profiles/units.hpp"

namespace stagecraft::processes {

namespace {

using namespace std::chrono_literals;

constexpr auto patience = 5s;       ///< with others that are to stop
constexpr auto longest_force = 2s;  ///< until this process ends by itself
/// How long the library may take leave of the others: MPI waits for all of them without end, and
/// one may have been stopped behind its last word.
constexpr auto longest_finish = 6s;

constexpr Duration pulse_every = 1s;
/// A process may pause: be stopped and go on, or wait for a disk. For longer than this, it is lost.
constexpr Duration longest_pause = 12s;
/// How late this process itself may be; beyond it, others are not to blame for what it did not
/// hear.
constexpr Duration longest_own_pause = 2s;

/// Tags of the communicator for alarms.
enum AlarmTag : int { reason_tag, verdict_tag, arrival_tag, farewell_tag, pulse_tag };

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
Piece piece_of_value(const std::shared_ptr<T>& value, int peer, int tag) {
  return {.peer = peer, .tag = tag, .data = value.get(), .bytes = sizeof *value, .owner = value};
}

constexpr auto nothing_more = [] {};

/// Whether each process of this machine may have one core to compute and one to poll.
bool has_two_cores(int processes_here) {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) >= 2 * processes_here;
}

}  // namespace

Session::Session(MakeCarrier make_carrier)
    : progress_(
          make_carrier, [this] { start(); },
          [this](const std::string& why) {
            // Somebody else must wait for the verdict: this is the thread that hears it.
            std::thread([this, why] { abort(why); }).detach();
          },
          [this](int rank) { lose(rank); }, [this] { keep_pulse(); }) {}

void Session::start() {
  Carrier& carrier = progress_.carrier();
  rank_ = carrier.rank();
  count_ = carrier.processes();
  library_ = carrier.library();
  const int control = carrier.open_space(count_, false);
  const int alarms = carrier.open_space(count_, true);
  clock_ = offset_of_clock(carrier, control);
  control_messenger_ = std::make_shared<Messenger>(progress_, control);
  alarm_messenger_ = std::make_shared<Messenger>(progress_, alarms);
  if (count_ > 1 && has_two_cores(carrier.processes_here())) progress_.set_pace(Pace::polls);
  hear_alarms();
  if (rank_ == 0) hear_arrivals();
  if (rank_ != 0) hear_farewell();
  heard_.assign(static_cast<std::size_t>(count_), now());
  pulse_is_under_way_.assign(static_cast<std::size_t>(count_), 0);
  last_look_ = next_pulse_ = now();
  if (count_ > 1) hear_pulse(rank_ == 0 ? any_peer : 0);
  keeps_pulse_ = count_ > 1;
}

// --- Signs of life
// -------------------------------------------------------------------------------

void Session::hear_pulse(int from) {
  const auto rank = std::make_shared<int>();
  alarm_messenger_->receive(piece_of_value(rank, from, pulse_tag), [this, rank, from](bool) {
    hear_pulse(from);
    if (*rank >= 0 && *rank < count_) heard_[static_cast<std::size_t>(*rank)] = now();
  });
}

/// One at a time: who takes none gets no more.
void Session::send_pulse(int to) {
  char& is_under_way = pulse_is_under_way_[static_cast<std::size_t>(to)];
  if (is_under_way != 0) return;
  is_under_way = 1;
  alarm_messenger_->send(piece_of_value(std::make_shared<int>(rank_), to, pulse_tag),
                         [&is_under_way] { is_under_way = 0; });
}

/// On the progress thread, in every round of it.
void Session::keep_pulse() {
  if (!keeps_pulse_) return;
  const Moment at = now();
  if (at - last_look_ > longest_own_pause) std::ranges::fill(heard_, at);
  last_look_ = at;
  if (at < next_pulse_) return;
  next_pulse_ = at + pulse_every;
  const int end = rank_ == 0 ? count_ : 1;
  for (int rank = rank_ == 0 ? 1 : 0; rank < end; ++rank) {
    bool has_ended = false;
    {
      const std::lock_guard lock(mutex_);
      has_ended = rank == 0 ? farewell_.has_value() : lost_.contains(rank);
    }
    if (has_ended) continue;
    send_pulse(rank);
    const Duration silence = at - heard_[static_cast<std::size_t>(rank)];
    if (silence <= longest_pause) continue;
    lose(rank, concat("rank ", rank, " has been silent for ", format_duration(silence),
                      ": its process was stopped, or its machine or the network is down"));
  }
}

// --- Failures
// ------------------------------------------------------------------------------------

/// Rank 0 hears reasons, all others verdicts; one after the other.
void Session::hear_alarms() {
  const auto alarm = std::make_shared<Alarm>();
  const int from = rank_ == 0 ? any_peer : 0;
  const int tag = rank_ == 0 ? reason_tag : verdict_tag;
  alarm_messenger_->receive(piece_of_value(alarm, from, tag), [this, alarm](bool) {
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
    alarm_messenger_->send(piece_of_value(alarm, rank, verdict_tag), nothing_more);
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

/// On the progress thread. Of others than rank 0, rank 0 says what follows.
void Session::lose(int rank) {
  if (rank_ != 0 && rank != 0) return;
  lose(rank,
       concat("rank ", rank, " has gone: its connection was closed in the middle of the run"));
}

void Session::lose(int rank, const std::string& reason) {
  int world = 0;
  {
    const std::lock_guard lock(mutex_);
    world = world_->number;
    world_->lose_peer();
    lost_.insert(rank);
    if (rank_ == 0) arrived_.insert(rank);
    if (rank == 0 && !farewell_) {
      farewell_ = exit_code(ErrorKind::execution);
      const auto verdict = verdicts_.find(world);
      last_words_ = verdict == verdicts_.end() ? reason : verdict->second;
    }
    changed_.notify_all();
  }
  rank_ == 0 ? decide(world, reason) : hear_verdict(world, reason);
}

std::string Session::abort(World& world, const std::string& reason) {
  Lock lock(mutex_);
  if (!verdicts_.contains(world.number)) {
    progress_.soon([this, number = world.number, reason] {
      if (rank_ == 0) return decide(number, reason);
      alarm_messenger_->send(piece_of_value(make_alarm(number, reason), 0, reason_tag),
                             nothing_more);
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
  // Where a host is cut off, what is to tell the others waits for them.
  std::thread([exit_code] {
    std::this_thread::sleep_for(longest_force);
    std::_Exit(exit_code);
  }).detach();
  progress_.now([&] { progress_.carrier().abort(exit_code); });
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
    throw Error(ErrorKind::usage, concat("the run has ", wiring.ranks, " ranks, but there are ",
                                         count_, " processes"));
  }
  if (used_) enter_next_world();
  used_ = true;
  const bool takes_part = rank_ < wiring.ranks;
  // Opening a space may wait for all; by now all are there.
  if (takes_part) {
    Conversation(progress_, world_, control_messenger_, rank_, wiring.ranks)
        .barrier(2 * world_->number);
  }
  int data = 0, control = 0;
  progress_.now([&] {
    data = progress_.carrier().open_space(wiring.ranks, false);
    control = progress_.carrier().open_space(wiring.ranks, false);
  });
  if (!takes_part) return {};
  std::vector<std::unique_ptr<Transport>> transports;
  transports.push_back(make_transport(wiring, std::make_shared<Messenger>(progress_, data),
                                      std::make_shared<Messenger>(progress_, control), *this,
                                      progress_, world_));
  return transports;
}

// --- The end
// -------------------------------------------------------------------------------------

void Session::hear_arrivals() {
  const auto rank = std::make_shared<int>();
  alarm_messenger_->receive(piece_of_value(rank, any_peer, arrival_tag), [this, rank](bool) {
    hear_arrivals();
    const std::lock_guard lock(mutex_);
    arrived_.insert(*rank);
    changed_.notify_all();
  });
}

void Session::hear_farewell() {
  const auto code = std::make_shared<int>();
  alarm_messenger_->receive(piece_of_value(code, 0, farewell_tag), [this, code](bool) {
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
      const auto rank = std::make_shared<int>(rank_);
      alarm_messenger_->send(piece_of_value(rank, 0, arrival_tag), nothing_more);
    });
    Lock lock(mutex_);
    changed_.wait(lock, [&] { return farewell_.has_value(); });
    exit_code = *farewell_;
    // Nobody else is left who would tell it.
    if (!last_words_.empty()) std::fprintf(stderr, "error: run: %s\n", last_words_.c_str());
  }
  finish(exit_code);
  return exit_code;
}

/// All has been said; who does not take leave is not waited for.
void Session::finish(int exit_code) {
  std::mutex mutex;
  std::condition_variable changed;
  bool has_finished = false;
  const std::jthread guard([&] {
    Lock lock(mutex);
    if (changed.wait_for(lock, longest_finish, [&] { return has_finished; })) return;
    std::fflush(nullptr);
    std::_Exit(exit_code);
  });
  progress_.end([this] {
    keeps_pulse_ = false;
    progress_.carrier().finish();
  });
  {
    const std::lock_guard lock(mutex);
    has_finished = true;
  }
  changed.notify_all();
}

/// Whoever still waits for rank 0 stops; those that do not even hear that are ended.
void Session::await_others(int exit_code) {
  if (exit_code != 0) abort(*world_, "rank 0 has ended");
  bool all_are_here = true;
  {
    Lock lock(mutex_);
    const auto all_here = [&] { return static_cast<int>(arrived_.size()) == count_ - 1; };
    const auto stops = [&] { return exit_code != 0 || !verdicts_.empty(); };
    // In peace others may still have work to do; when one of them is lost, all are to stop.
    changed_.wait(lock, [&] { return all_here() || stops(); });
    if (stops()) all_are_here = changed_.wait_for(lock, patience, all_here);
  }
  // Those that are here would take the end by force for the cause.
  bid_farewell(exit_code);
  if (!all_are_here) end_by_force(exit_code);
}

/// To all that are here.
void Session::bid_farewell(int exit_code) {
  Lock lock(mutex_);
  const std::vector<int> here(arrived_.begin(), arrived_.end());
  lock.unlock();
  const auto left = std::make_shared<std::size_t>(here.size());
  progress_.soon([this, exit_code, here, left] {
    for (const int rank : here) {
      const auto code = std::make_shared<int>(exit_code);
      alarm_messenger_->send(piece_of_value(code, rank, farewell_tag), [this, left] {
        const std::lock_guard guard(mutex_);
        --*left;
        changed_.notify_all();
      });
    }
  });
  lock.lock();
  // Who does not take it is not going to: carriers wait for nobody when they finish.
  changed_.wait_for(lock, patience, [&] { return *left == 0; });
}

}  // namespace stagecraft::processes
