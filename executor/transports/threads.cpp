// Ranks as threads of one process.
//
// One mutex guards everything the ranks share; nobody copies a tensor or sleeps while holding it.
// Each place where a rank can wait (a channel, a group, the barrier) has its own condition
// variable, and `abort` wakes them all.
//
// A message is copied once, from the sender's memory to the receiver's, by whichever side comes
// second:
//
//   post ──→ send copies           the usual case: the receive was issued before the message was
//   ready send ──→ post copies           the sender was early; its tensor waits in the queue send
//   ──→ receive copies        nothing was posted
//
// A reduction needs no memory: member i of n owns the i-th shard of the elements, adds up
// everybody's in the order of the list into the first member's, and hands the sum to the others, or
// keeps it.
//
// Backends may do all this later than they are asked for it. So a signal stands beside every tensor
// that another rank's backend touches, and one goes back:
//
//   sender      compute ─ signal ─→               ─→ await ─ use the memory again, or free it
//   receiver                await ─ copy ─ signal ─┴→ await ─ compute

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "executor/transports/transport.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

using Lock = std::unique_lock<std::mutex>;

[[noreturn]] void fail_execution(const std::string& reason) {
  throw Error(ErrorKind::execution, reason);
}

std::chrono::steady_clock::time_point time_point(Moment moment) {
  using Clock = std::chrono::steady_clock;
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(moment));
}

/// A place where `size` ranks meet, round after round.
struct Meeting {
  int size = 0;
  int present = 0;
  long round = 0;
  std::condition_variable changed;
};

/// A tensor, and the work behind which it may be touched.
struct Signalled {
  Tensor tensor;
  SharedSignal ready;
};

struct Message {
  Signalled cargo;
  MessageLabel label;
  Late<Moment> sent;
  Late<Moment> settled;  ///< when it was in the receiver's memory
  Moment available{0};
};

struct Channel {
  ChannelEnds ends;
  std::deque<Message> messages;  ///< handed over and not yet received, in order
  std::size_t settled = 0;       ///< how many of them, from the first, are in posted memory
  long delivered = 0;            ///< of all there have ever been, in the receiver's memory
  /// What the receiver has read, until the sender comes by: its memory is its backend's, and behind
  /// the reading.
  std::vector<Signalled> read;
  /// Memory for the next messages; none while a message is not settled.
  std::deque<Signalled> posted;
  std::condition_variable changed;

  bool full() const { return static_cast<int>(messages.size()) >= ends.capacity; }
};

struct Group {
  std::vector<int> members;
  std::vector<Signalled> offered;  ///< by place in the list; kept alive while others work on them
  std::vector<SharedSignal> done;  ///< by place: the member's part of the work
  Meeting meeting;
};

/// One's own tensor to another rank's memory, or the other way round.
void copy_message(Backend& backend, const Tensor& from, Tensor& to) {
  if (from.bytes() != to.bytes()) {
    fail_execution(concat("a message of ", from.bytes(), " bytes does not fit memory posted for ",
                          to.bytes()));
  }
  Tensor memory = reshaped(to, from.shape);
  backend.copy(from, memory);
}

/// Everything the ranks share.
class Exchange {
 public:
  explicit Exchange(const Wiring& wiring)
      : channels_(wiring.channels.size()), groups_(wiring.groups.size()) {
    for (std::size_t i = 0; i < channels_.size(); ++i) channels_[i].ends = wiring.channels[i];
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      groups_[i].members = wiring.groups[i];
      groups_[i].offered.resize(wiring.groups[i].size());
      groups_[i].done.resize(wiring.groups[i].size());
      groups_[i].meeting.size = static_cast<int>(wiring.groups[i].size());
    }
    barrier_.size = wiring.ranks;
    said_.resize(static_cast<std::size_t>(wiring.ranks));
  }

  void send(int index, Backend& backend, Tensor tensor, Moment available_at, MessageLabel label) {
    SharedSignal ready = backend.signal();
    Lock lock(mutex_);
    Channel& channel = at(channels_, index);
    wait(lock, channel.changed, [&] { return !channel.full(); });
    Message message{.cargo = {std::move(tensor), std::move(ready)},
                    .label = label,
                    .sent = backend.moment(),
                    .settled = {}};
    take_back(lock, channel, backend);
    if (!channel.posted.empty()) {
      settle(lock, channel, backend, message, take_first(channel.posted));
      ++channel.settled;
    }
    message.available = std::max(now(), available_at);
    channel.messages.push_back(std::move(message));
    channel.changed.notify_all();
  }

  void wait_for_delivery(int index, Backend& backend, long messages) {
    Lock lock(mutex_);
    Channel& channel = at(channels_, index);
    wait(lock, channel.changed, [&] { return channel.delivered >= messages; });
    take_back(lock, channel, backend);
  }

  void post(int index, Backend& backend, Tensor tensor) {
    Signalled memory{std::move(tensor), backend.signal()};
    Lock lock(mutex_);
    throw_if_aborted();
    Channel& channel = at(channels_, index);
    if (channel.messages.size() == channel.settled) {
      channel.posted.push_back(std::move(memory));
      return;
    }
    // Only the receiver takes messages away, and that is who is here: the message stays where it
    // is.
    settle(lock, channel, backend, channel.messages[channel.settled], std::move(memory));
    ++channel.settled;
  }

  Arrival receive(int index, Backend& backend) {
    Lock lock(mutex_);
    Channel& channel = at(channels_, index);
    wait(lock, channel.changed, [&] { return !channel.messages.empty(); });
    const Moment available = channel.messages.front().available;
    sleep_until(lock, channel.changed, available);
    Message message = take_first(channel.messages);
    channel.changed.notify_all();
    if (channel.settled > 0) {
      --channel.settled;
    } else {
      const Tensor& sent = message.cargo.tensor;
      settle(lock, channel, backend, message, {backend.allocate(sent.shape, sent.precision), {}});
    }
    lock.unlock();
    backend.await(message.cargo.ready);
    return {.tensor = std::move(message.cargo.tensor),
            .label = message.label,
            .sent = message.sent,
            .arrived = message.settled.is_there() ? Late<Moment>(available) : message.settled};
  }

  void all_reduce(int index, int rank, Backend& backend, Tensor& tensor) {
    share(index, rank, backend, tensor, [&](Group& group, std::size_t place) {
      if (add_up(group, place, backend).empty()) return;
      hand_out(group, 0, place, backend);
    });
  }

  void reduce_scatter(int index, int rank, Backend& backend, Tensor& tensor) {
    share(index, rank, backend, tensor, [&](Group& group, std::size_t place) {
      const Tensor sum = add_up(group, place, backend);
      Tensor own = shard_of(tensor, place, group.members.size());
      if (place != 0 && !sum.empty()) backend.copy(sum, own);
    });
  }

  void all_gather(int index, int rank, Backend& backend, Tensor& tensor) {
    share(index, rank, backend, tensor,
          [&](Group& group, std::size_t place) { hand_out(group, place, place, backend); });
  }

  void barrier() { meet(barrier_); }

  std::vector<std::string> gather(int rank, std::string said) {
    said_[static_cast<std::size_t>(rank)] = std::move(said);
    meet(barrier_);
    std::vector<std::string> all;
    if (rank == 0) all = said_;
    meet(barrier_);
    return all;
  }

  std::string broadcast(int rank, std::string said) {
    if (rank == 0) said_.front() = std::move(said);
    meet(barrier_);
    std::string heard = said_.front();
    meet(barrier_);
    return heard;
  }

  std::string abort(const std::string& reason) {
    const Lock lock(mutex_);
    if (!aborted_) aborted_ = reason;
    for (Channel& channel : channels_) channel.changed.notify_all();
    for (Group& group : groups_) group.meeting.changed.notify_all();
    barrier_.changed.notify_all();
    return *aborted_;
  }

  std::optional<std::string> aborted() {
    const Lock lock(mutex_);
    return aborted_;
  }

 private:
  template <class T>
  static T& at(std::deque<T>& table, int index) {
    assert(index >= 0 && index < static_cast<int>(table.size()));
    return table[static_cast<std::size_t>(index)];
  }

  template <class T>
  static T take_first(std::deque<T>& queue) {
    T first = std::move(queue.front());
    queue.pop_front();
    return first;
  }

  static std::size_t place_of(const Group& group, int rank) {
    const auto found = std::ranges::find(group.members, rank);
    assert(found != group.members.end());
    return static_cast<std::size_t>(found - group.members.begin());
  }

  /// Offers the tensor to the others while `work` does this member's part: nobody leaves before all
  /// have done theirs.
  template <class Work>
  void share(int index, int rank, Backend& backend, Tensor& tensor, const Work& work) {
    Group& group = at(groups_, index);
    const auto place = place_of(group, rank);
    group.offered[place] = {tensor, backend.signal()};
    meet(group.meeting);
    if (tensor.elements() != group.offered[0].tensor.elements()) {
      fail_execution(concat("group ", index, " adds up ", group.offered[0].tensor.elements(),
                            " and ", tensor.elements(), " elements"));
    }
    for (const Signalled& each : group.offered) backend.await(each.ready);
    work(group, place);
    group.done[place] = backend.signal();
    meet(group.meeting);
    group.offered[place] = {};
    // Overwritten behind the next meeting only, to which all come when they have read it.
    for (const SharedSignal& each : group.done) backend.await(each);
  }

  /// The sum of this member's shard, in the first member's memory; empty if it has no elements.
  static Tensor add_up(Group& group, std::size_t place, Backend& backend) {
    const std::size_t members = group.members.size();
    Tensor sum = shard_of(group.offered[0].tensor, place, members);
    if (sum.elements() == 0) return {};
    for (std::size_t i = 1; i < members; ++i) {
      backend.add(shard_of(group.offered[i].tensor, place, members), sum);
    }
    return sum;
  }

  /// The shard at `place`, as member `from` has it, to all others.
  static void hand_out(Group& group, std::size_t from, std::size_t place, Backend& backend) {
    const std::size_t members = group.members.size();
    const Tensor own = shard_of(group.offered[from].tensor, place, members);
    if (own.elements() == 0) return;
    for (std::size_t i = 0; i < members; ++i) {
      if (i == from) continue;
      Tensor copy = shard_of(group.offered[i].tensor, place, members);
      backend.copy(own, copy);
    }
  }

  void throw_if_aborted() const {
    if (aborted_) fail_execution(*aborted_);
  }

  template <class Ready>
  void wait(Lock& lock, std::condition_variable& changed, Ready ready) {
    changed.wait(lock, [&] { return aborted_ || ready(); });
    throw_if_aborted();
  }

  void sleep_until(Lock& lock, std::condition_variable& changed, Moment moment) {
    changed.wait_until(lock, time_point(moment), [&] { return aborted_.has_value(); });
    throw_if_aborted();
  }

  /// Moves a message into the receiver's memory; the lock is open meanwhile.
  void settle(Lock& lock, Channel& channel, Backend& backend, Message& message, Signalled memory) {
    Signalled from = std::exchange(message.cargo, {});
    lock.unlock();
    backend.await(from.ready);
    backend.await(memory.ready);
    copy_message(backend, from.tensor, memory.tensor);
    memory.ready = from.ready = backend.signal();
    message.settled = backend.moment();
    // Nothing to come back for where it was read when the call returned.
    if (!from.ready) from = {};
    lock.lock();
    message.cargo = std::move(memory);
    if (from.ready) channel.read.push_back(std::move(from));
    ++channel.delivered;
    channel.changed.notify_all();
  }

  /// The sender's memory that has been read: behind that it may be used again, or given back.
  void take_back(Lock& lock, Channel& channel, Backend& sender) {
    std::vector<Signalled> read = std::exchange(channel.read, {});
    lock.unlock();
    for (const Signalled& each : read) sender.await(each.ready);
    read.clear();
    lock.lock();
  }

  /// Returns when all have come; those who have met before an abort still part in peace.
  void meet(Meeting& meeting) {
    Lock lock(mutex_);
    throw_if_aborted();
    const long round = meeting.round;
    if (++meeting.present == meeting.size) {
      meeting.present = 0;
      ++meeting.round;
      meeting.changed.notify_all();
      return;
    }
    meeting.changed.wait(lock, [&] { return aborted_ || meeting.round != round; });
    if (meeting.round == round) throw_if_aborted();
  }

  std::mutex mutex_;
  std::optional<std::string> aborted_;  ///< why
  std::deque<Channel> channels_;        ///< deques, because condition variables do not move
  std::deque<Group> groups_;
  Meeting barrier_;
  std::vector<std::string> said_;  ///< by rank; written before a meeting, read behind it
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(int rank, int ranks, std::shared_ptr<Exchange> exchange)
      : rank_(rank), ranks_(ranks), exchange_(std::move(exchange)) {}

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void send(int channel, Backend& backend, Tensor tensor, Moment available_at,
            MessageLabel label) override {
    exchange_->send(channel, backend, std::move(tensor), available_at, label);
  }
  void wait_for_delivery(int channel, Backend& backend, long messages) override {
    exchange_->wait_for_delivery(channel, backend, messages);
  }
  void post(int channel, Backend& backend, Tensor memory) override {
    exchange_->post(channel, backend, std::move(memory));
  }
  Arrival receive(int channel, Backend& backend) override {
    return exchange_->receive(channel, backend);
  }
  void all_reduce(int group, Backend& backend, Tensor& tensor) override {
    exchange_->all_reduce(group, rank_, backend, tensor);
  }
  void reduce_scatter(int group, Backend& backend, Tensor& tensor) override {
    exchange_->reduce_scatter(group, rank_, backend, tensor);
  }
  void all_gather(int group, Backend& backend, Tensor& tensor) override {
    exchange_->all_gather(group, rank_, backend, tensor);
  }
  void barrier() override { exchange_->barrier(); }
  std::vector<std::string> gather(std::string said) override {
    return exchange_->gather(rank_, std::move(said));
  }
  std::string broadcast(std::string said) override {
    return exchange_->broadcast(rank_, std::move(said));
  }
  std::string abort(const std::string& reason) override { return exchange_->abort(reason); }
  std::optional<std::string> aborted() override { return exchange_->aborted(); }

 private:
  int rank_;
  int ranks_;
  std::shared_ptr<Exchange> exchange_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_thread_transports(const Wiring& wiring) {
  const auto exchange = std::make_shared<Exchange>(wiring);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < wiring.ranks; ++rank) {
    transports.push_back(std::make_unique<ThreadTransport>(rank, wiring.ranks, exchange));
  }
  return transports;
}

}  // namespace stagecraft
