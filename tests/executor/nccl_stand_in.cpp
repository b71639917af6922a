#include "tests/executor/nccl_stand_in.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "executor/transports/nccl/transport.hpp"
#include "profiles/error.hpp"

namespace stagecraft::tests {

using nccl::Communicator;
using nccl::Event;
using nccl::Result;
using nccl::Stream;
using nccl::UniqueId;

namespace {

/// A communicator as a whole.
struct Circle {
  std::vector<std::optional<int>> ranks;  ///< by place, of those that have come
  std::optional<std::string> broken;      ///< the rule that somebody broke on it

  bool complete() const {
    return std::ranges::all_of(ranks, [](const auto& rank) { return rank.has_value(); });
  }
};

/// A rank's handle of a communicator.
struct Member {
  enum class Phase { connecting, ready, ending, ended };
  std::shared_ptr<Circle> circle;
  int rank = 0;
  int place = 0;
  Phase phase = Phase::connecting;
  int polls_left = 2;  ///< until what was asked for is done
};

struct Transfer {
  Member* member = nullptr;
  bool is_send = false;
  int place = 0;  ///< the other one's
  char* data = nullptr;
  std::size_t bytes = 0;
  bool done = false;
  std::optional<Precision> sum = {};  ///< of all members; `place` is then the rank's own
  bool is_scattered = false;

  int other_rank() const {
    return member->circle->ranks[static_cast<std::size_t>(place)].value_or(-1);
  }
  bool fits(const Transfer& other) const {
    return !sum && !other.sum && member->circle == other.member->circle &&
           is_send != other.is_send && place == other.member->place && other.place == member->place;
  }
  std::string words() const {
    if (sum) return concat(is_scattered ? "scatter" : "share", " the sum of ", bytes, " bytes");
    return concat(is_send ? "send " : "receive ", bytes, " bytes ", is_send ? "to" : "from",
                  " rank ", other_rank());
  }
};

/// What moves side by side: a group, or one call outside of any.
struct Batch {
  std::vector<Transfer> transfers;
  bool done() const { return std::ranges::all_of(transfers, &Transfer::done); }
};

/// Batches one after another.
struct Queue {
  int rank = 0;
  std::deque<std::shared_ptr<Batch>> batches;
};

struct StreamState {
  Queue* queue = nullptr;
  std::shared_ptr<Batch> last;
};

}  // namespace

// --- The world
// -----------------------------------------------------------------------------------

class NcclWorld::State {
 public:
  explicit State(NcclManner manner) : manner_(std::move(manner)) {}

  // One for all: whoever calls holds it.
  std::mutex mutex;

  UniqueId new_id() {
    UniqueId id{};
    std::memcpy(id.data(), &++last_id_, sizeof last_id_);
    return id;
  }

  Member* join(int rank, int members, const UniqueId& id, int place) {
    auto& circle = circles_[id];
    if (!circle) circle = std::make_shared<Circle>();
    circle->ranks.resize(static_cast<std::size_t>(members));
    circle->ranks[static_cast<std::size_t>(place)] = rank;
    return &members_.emplace_back(Member{.circle = circle, .rank = rank, .place = place});
  }

  StreamState* add_stream(int rank) {
    Queue*& shared = queue_of_rank_[rank];
    if (shared == nullptr || !manner_.one_queue) shared = &queues_.emplace_back(Queue{rank, {}});
    return &streams_.emplace_back(StreamState{shared, nullptr});
  }

  char* memory_of(const void* data) const {
    return static_cast<char*>(const_cast<void*>(data)) - manner_.distance;
  }
  std::shared_ptr<void> allocate(Bytes bytes) const {
    const std::shared_ptr<char[]> near(new char[static_cast<std::size_t>(bytes)]);
    return {near, near.get() + manner_.distance};
  }
  std::string device_of(int rank) const {
    const auto i = static_cast<std::size_t>(rank);
    return i < manner_.devices.size() ? manner_.devices[i] : concat("here/", rank);
  }

  void break_rule(Member* member, const std::string& sentence) {
    broken_.push_back(sentence);
    if (member != nullptr && manner_.tells && !member->circle->broken) {
      member->circle->broken = sentence;
    }
  }

  /// How it stands with the member's communicator, which one more look may change.
  Result look(Member& member) {
    if (member.circle->broken) return Result::invalid_usage;
    if (const auto failing = failing_.find(member.rank); failing != failing_.end()) {
      return failing->second;
    }
    for (const auto& rank : member.circle->ranks) {
      if (rank && *rank != member.rank && lost_.contains(*rank)) return Result::remote_error;
    }
    if (member.polls_left == 0) return Result::success;
    if (member.phase == Member::Phase::connecting && !member.circle->complete()) {
      return Result::in_progress;
    }
    if (--member.polls_left > 0) return Result::in_progress;
    if (member.phase == Member::Phase::connecting) member.phase = Member::Phase::ready;
    return Result::success;
  }

  void issue(StreamState& stream, Batch batch) {
    for (const Transfer& transfer : batch.transfers) {
      transfer.member->polls_left = 2;
      calls_.push_back({transfer.member->rank, transfer.words(), ranks_of(*transfer.member)});
    }
    stream.last = std::make_shared<Batch>(std::move(batch));
    stream.queue->batches.push_back(stream.last);
    move_what_can();
  }

  bool is_moving(const Member& member) const {
    return std::ranges::any_of(queues_, [&](const Queue& queue) {
      return std::ranges::any_of(queue.batches, [&](const auto& batch) {
        return std::ranges::any_of(batch->transfers, [&](const Transfer& transfer) {
          return transfer.member == &member && !transfer.done;
        });
      });
    });
  }

  /// Whatever they had under way is over, wherever it was. Each is waited for, so none may be
  /// behind one that goes on.
  void drop(const std::vector<Member*>& members) {
    for (Member* member : members) {
      member->phase = Member::Phase::ended;
      for (Queue& queue : queues_) {
        for (const auto& batch : queue.batches) {
          for (Transfer& transfer : batch->transfers) {
            if (transfer.member == member) transfer.done = true;
          }
        }
      }
    }
    move_what_can();
    const auto waits = [&](const Member* member) { return is_held_up(*member); };
    const auto found = std::ranges::find_if(members, waits);
    if (found == members.end()) return;
    break_rule(nullptr, concat("rank ", (*found)->rank,
                               " waits for the end of a communicator whose messages are behind "
                               "another one's, which goes on"));
  }

  void lose(int rank, bool silent) {
    gone_.insert(rank);
    if (!silent) lost_.insert(rank);
  }
  void fail(int rank, Result result) { failing_[rank] = result; }

  std::vector<std::string> broken() const { return broken_; }
  std::vector<NcclCall> calls() const { return calls_; }

 private:
  static std::vector<int> ranks_of(const Member& member) {
    std::vector<int> ranks;
    for (const auto& rank : member.circle->ranks) ranks.push_back(rank.value_or(-1));
    return ranks;
  }

  /// Whether something of it comes behind what has not moved yet.
  bool is_held_up(const Member& member) const {
    return std::ranges::any_of(queues_, [&](const Queue& queue) {
      if (queue.batches.empty() || queue.batches.front()->done()) return false;
      return std::ranges::any_of(queue.batches, [&](const auto& batch) {
        return batch->transfers.front().member == &member;
      });
    });
  }

  void move_what_can() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Queue& queue : queues_) {
        while (!queue.batches.empty() && queue.batches.front()->done()) queue.batches.pop_front();
        if (!queue.batches.empty() && !gone_.contains(queue.rank)) {
          moved |= move_some(*queue.batches.front());
        }
      }
    }
    find_circle_of_waits();
  }

  bool move_some(Batch& batch) {
    bool moved = false;
    for (Transfer& transfer : batch.transfers) {
      if (transfer.sum) {
        moved |= !transfer.done && add_up(transfer);
        continue;
      }
      Transfer* other = transfer.done ? nullptr : partner(transfer);
      if (other == nullptr || &first_of_kind(batch, transfer) != &transfer) continue;
      moved |= move(transfer, *other);
    }
    return moved;
  }

  /// Calls between the same two ranks, in the same direction, are served in their order.
  static Transfer& first_of_kind(Batch& batch, const Transfer& transfer) {
    return *std::ranges::find_if(batch.transfers, [&](const Transfer& other) {
      return !other.done && other.member == transfer.member && other.place == transfer.place &&
             other.is_send == transfer.is_send;
    });
  }

  /// The other half, if its turn has come.
  Transfer* partner(const Transfer& transfer) {
    for (Queue& queue : queues_) {
      if (queue.rank != transfer.other_rank() || queue.batches.empty()) continue;
      if (gone_.contains(queue.rank)) continue;
      for (Transfer& other : queue.batches.front()->transfers) {
        if (!other.done && other.fits(transfer)) return &other;
      }
    }
    return nullptr;
  }

  /// The same sum, as another member asks for it, if it is its turn.
  Transfer* same_sum(const Transfer& sum, int rank) {
    for (Queue& queue : queues_) {
      if (queue.rank != rank || queue.batches.empty() || gone_.contains(rank)) continue;
      for (Transfer& other : queue.batches.front()->transfers) {
        if (other.sum && !other.done && other.member->circle == sum.member->circle) return &other;
      }
    }
    return nullptr;
  }

  /// From the last member to the first: NCCL's order is none that one may rely on.
  bool add_up(Transfer& sum) {
    std::vector<Transfer*> all;
    for (const auto& rank : sum.member->circle->ranks) {
      Transfer* other = same_sum(sum, rank.value_or(-1));
      if (other == nullptr) return false;
      if (other->bytes != sum.bytes || other->sum != sum.sum ||
          other->is_scattered != sum.is_scattered) {
        break_rule(sum.member, concat("sums differ: rank ", sum.member->rank, " wants to ",
                                      sum.words(), ", rank ", *rank, " to ", other->words()));
        return false;
      }
      all.push_back(other);
    }
    switch (*sum.sum) {
      case Precision::float32: add_numbers<float>(all); break;
      case Precision::float64: add_numbers<double>(all); break;
      default: break_rule(sum.member, "the stand-in adds fp32 and fp64 only"); return false;
    }
    for (Transfer* each : all) each->done = true;
    return true;
  }

  template <class Number>
  static void add_numbers(const std::vector<Transfer*>& all) {
    const std::size_t count = all.front()->bytes / sizeof(Number);
    std::vector<Number> sums(count);
    std::memcpy(sums.data(), all.back()->data, all.back()->bytes);
    for (std::size_t i = all.size() - 1; i-- > 0;) {
      const auto* numbers = reinterpret_cast<const Number*>(all[i]->data);
      for (std::size_t at = 0; at < count; ++at) sums[at] += numbers[at];
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t part = all[i]->is_scattered ? count / all.size() : count;
      const std::size_t first = all[i]->is_scattered ? i * part : 0;
      std::memcpy(all[i]->data + first * sizeof(Number), sums.data() + first,
                  part * sizeof(Number));
    }
  }

  bool move(Transfer& one, Transfer& other) {
    const Transfer& from = one.is_send ? one : other;
    const Transfer& to = one.is_send ? other : one;
    if (from.bytes != to.bytes) {
      if (mismatched_.emplace(&from, &to).second) {
        break_rule(from.member,
                   concat("counts differ: rank ", from.member->rank, " asks to ", from.words(),
                          ", rank ", to.member->rank, " to ", to.words()));
      }
      return false;
    }
    std::memcpy(to.data, from.data, from.bytes);
    one.done = other.done = true;
    return true;
  }

  /// The queue where the other half waits behind something else, if it was asked for at all.
  const Queue* held_up_in(const Transfer& transfer) const {
    for (const Queue& queue : queues_) {
      if (queue.rank != transfer.other_rank()) continue;
      for (std::size_t i = 1; i < queue.batches.size(); ++i) {
        for (const Transfer& other : queue.batches[i]->transfers) {
          if (!other.done && other.fits(transfer)) return &queue;
        }
      }
    }
    return nullptr;
  }

  /// From each first batch to those that its other halves wait behind.
  void find_circle_of_waits() {
    if (found_circle_) return;
    for (const Queue& queue : queues_) {
      std::vector<std::pair<const Queue*, const Transfer*>> path;
      if (!follow(queue, path)) continue;
      found_circle_ = true;
      // Told from the first of its ranks, whoever made its streams first.
      std::ranges::rotate(path, std::ranges::min_element(
                                    path, {}, [](const auto& each) { return each.first->rank; }));
      std::string sentence = "ranks wait for each other in a circle: ";
      for (const auto& [waiting, transfer] : path) {
        sentence += concat(waiting == path.front().first ? "" : ", ", "rank ", waiting->rank,
                           " to ", transfer->words());
      }
      for (const auto& [waiting, transfer] : path) break_rule(transfer->member, sentence);
      broken_.resize(broken_.size() - path.size() + 1);  // said once
      return;
    }
  }

  /// Whether a way from here leads into a circle; then `path` is the circle.
  bool follow(const Queue& queue, std::vector<std::pair<const Queue*, const Transfer*>>& path) {
    const auto seen =
        std::ranges::find(path, &queue, &std::pair<const Queue*, const Transfer*>::first);
    if (seen != path.end()) {
      path.erase(path.begin(), seen);
      return true;
    }
    if (queue.batches.empty()) return false;
    for (const Transfer& transfer : queue.batches.front()->transfers) {
      const Queue* next = transfer.done ? nullptr : held_up_in(transfer);
      if (next == nullptr) continue;
      path.emplace_back(&queue, &transfer);
      if (follow(*next, path)) return true;
      path.pop_back();
    }
    return false;
  }

  NcclManner manner_;
  std::uint64_t last_id_ = 0;
  std::map<UniqueId, std::shared_ptr<Circle>> circles_;
  std::list<Member> members_;
  std::list<Queue> queues_;
  std::list<StreamState> streams_;
  std::map<int, Queue*> queue_of_rank_;
  std::vector<std::string> broken_;
  std::vector<NcclCall> calls_;
  std::set<int> gone_, lost_;
  std::map<int, Result> failing_;  ///< by rank
  std::set<std::pair<const Transfer*, const Transfer*>> mismatched_;
  bool found_circle_ = false;
};

// --- What a rank calls
// ---------------------------------------------------------------------------

class StandInCalls final : public nccl::Calls {
 public:
  StandInCalls(std::shared_ptr<NcclWorld::State> world, int rank)
      : world_(std::move(world)), rank_(rank) {}
  ~StandInCalls() override {
    const std::lock_guard lock(world_->mutex);
    for (const auto& [thread, group] : groups_) {
      if (group.depth > 0)
        world_->break_rule(nullptr, concat("rank ", rank_, " leaves a group open"));
    }
  }
  StandInCalls(const StandInCalls&) = delete;
  StandInCalls& operator=(const StandInCalls&) = delete;

  Result get_unique_id(UniqueId& id) override {
    const std::lock_guard lock(world_->mutex);
    id = world_->new_id();
    return Result::success;
  }
  Result init_rank(Communicator& communicator, int members, const UniqueId& id,
                   int place) override {
    const std::lock_guard lock(world_->mutex);
    communicator = world_->join(rank_, members, id, place);
    return Result::in_progress;
  }
  Result async_error(Communicator communicator, Result& state) override {
    const std::lock_guard lock(world_->mutex);
    Member* member = alive(communicator);
    if (member == nullptr) return Result::invalid_argument;
    state = world_->look(*member);
    return Result::success;
  }
  std::string describe(Result result, Communicator communicator) override {
    const std::lock_guard lock(world_->mutex);
    const auto* member = static_cast<const Member*>(communicator);
    switch (result) {
      case Result::remote_error: return "remote process exited or there was a network error";
      case Result::system_error: return "unhandled system error";
      case Result::unhandled_cuda_error: return "unhandled cuda error";
      case Result::internal_error: return "internal error";
      case Result::timeout: return "timeout";
      case Result::success:
      case Result::invalid_argument:
      case Result::invalid_usage:
      case Result::in_progress: break;
    }
    const bool known = member != nullptr && member->circle->broken;
    return known ? concat("invalid usage (", *member->circle->broken, ")") : "invalid usage";
  }
  Result finalize(Communicator communicator) override {
    const std::lock_guard lock(world_->mutex);
    Member* member = settled(communicator);
    if (member == nullptr) return Result::invalid_argument;
    if (world_->is_moving(*member)) {
      world_->break_rule(nullptr, concat("rank ", rank_, " ends a communicator that still moves"));
    }
    member->phase = Member::Phase::ending;
    member->polls_left = 2;
    return Result::in_progress;
  }
  Result destroy(Communicator communicator) override { return end(communicator, true); }
  Result abort(Communicator communicator) override { return end(communicator, false); }

  Result group_start() override {
    const std::lock_guard lock(world_->mutex);
    ++own_group().depth;
    return Result::success;
  }
  Result group_end() override {
    const std::lock_guard lock(world_->mutex);
    if (own_group().depth == 0) {
      world_->break_rule(nullptr, concat("rank ", rank_, " ends a group that it has not begun"));
      return Result::invalid_usage;
    }
    if (--own_group().depth > 0) return Result::success;
    Group group = std::exchange(own_group(), {});
    // Of a group with a mistake in it nothing is begun.
    if (group.mistake != Result::success) return group.mistake;
    world_->drop(group.ending);
    if (group.batch.transfers.empty()) return Result::success;
    world_->issue(*group.stream, std::move(group.batch));
    return Result::in_progress;
  }
  Result send(const void* data, std::size_t bytes, int peer, Communicator communicator,
              Stream stream) override {
    return ask({.is_send = true, .place = peer, .data = world_->memory_of(data), .bytes = bytes},
               communicator, stream);
  }
  Result receive(void* data, std::size_t bytes, int peer, Communicator communicator,
                 Stream stream) override {
    return ask({.is_send = false, .place = peer, .data = world_->memory_of(data), .bytes = bytes},
               communicator, stream);
  }

  Result all_reduce(void* data, std::size_t elements, Precision precision,
                    Communicator communicator, Stream stream) override {
    return add(data, elements, precision, false, communicator, stream);
  }
  Result reduce_scatter(void* data, std::size_t elements_of_part, Precision precision, int place,
                        Communicator communicator, Stream stream) override {
    const auto* member = static_cast<const Member*>(communicator);
    if (member->place != place) {
      world_->break_rule(nullptr, concat("rank ", rank_, " scatters into another one's part"));
    }
    return add(data, elements_of_part * member->circle->ranks.size(), precision, true, communicator,
               stream);
  }

  std::string device() override { return world_->device_of(rank_); }
  Stream make_stream() override {
    const std::lock_guard lock(world_->mutex);
    return world_->add_stream(rank_);
  }
  void destroy_stream(Stream) override {}
  Event record(Stream stream) override {
    const std::lock_guard lock(world_->mutex);
    return new std::shared_ptr<Batch>(static_cast<StreamState*>(stream)->last);
  }
  bool is_done(Event event) override {
    const std::lock_guard lock(world_->mutex);
    const auto& batch = *static_cast<std::shared_ptr<Batch>*>(event);
    return batch == nullptr || batch->done();
  }
  void destroy_event(Event event) override { delete static_cast<std::shared_ptr<Batch>*>(event); }
  std::shared_ptr<void> allocate(Bytes bytes) override { return world_->allocate(bytes); }

 private:
  Member* alive(Communicator communicator) {
    auto* member = static_cast<Member*>(communicator);
    if (member != nullptr && member->phase != Member::Phase::ended) return member;
    world_->break_rule(nullptr, concat("rank ", rank_, " uses a communicator after its end"));
    return nullptr;
  }

  /// Also done with what was asked for before.
  Member* settled(Communicator communicator) {
    Member* member = alive(communicator);
    if (member == nullptr) return nullptr;
    if (member->phase == Member::Phase::ready && member->polls_left == 0) return member;
    world_->break_rule(member, concat("rank ", rank_, " asks more of a communicator that is not ",
                                      member->phase == Member::Phase::connecting
                                          ? "connected yet"
                                          : "done with what it was asked for before"));
    return nullptr;
  }

  Result add(void* data, std::size_t elements, Precision precision, bool scatters,
             Communicator communicator, Stream stream) {
    return ask({.place = static_cast<const Member*>(communicator)->place,
                .data = world_->memory_of(data),
                .bytes = elements * static_cast<std::size_t>(element_bytes(precision)),
                .sum = precision,
                .is_scattered = scatters},
               communicator, stream);
  }

  Result ask(Transfer transfer, Communicator communicator, Stream stream) {
    const std::lock_guard lock(world_->mutex);
    Group& group = own_group();
    transfer.member = settled(communicator);
    if (transfer.member == nullptr) {
      if (group.depth > 0) group.mistake = Result::invalid_usage;
      return Result::invalid_usage;
    }
    auto* asked = static_cast<StreamState*>(stream);
    if (group.depth == 0) {
      world_->issue(*asked, {.transfers = {transfer}});
      return Result::in_progress;
    }
    if (!group.batch.transfers.empty() && asked != group.stream) {
      world_->break_rule(transfer.member, concat("rank ", rank_, " uses two streams in a group"));
    }
    group.stream = asked;
    group.batch.transfers.push_back(transfer);
    return Result::success;
  }

  /// Inside a group they end with it, which nobody waits for who calls from a group of messages.
  Result end(Communicator communicator, bool in_peace) {
    const std::lock_guard lock(world_->mutex);
    Member* member = alive(communicator);
    if (member == nullptr) return Result::invalid_argument;
    if (in_peace && member->phase != Member::Phase::ending) {
      world_->break_rule(nullptr, concat("rank ", rank_, " destroys before it finalizes"));
    }
    Group& group = own_group();
    if (group.depth == 0) {
      world_->drop({member});
      return Result::success;
    }
    if (group.depth > 1 || group.mistake != Result::success || !group.batch.transfers.empty()) {
      world_->break_rule(nullptr, concat("rank ", rank_,
                                         " ends a communicator inside a group that is still open"));
    }
    group.ending.push_back(member);
    return Result::success;
  }

  /// What a thread has asked for since it began a group: NCCL keeps it by thread, too.
  struct Group {
    int depth = 0;
    Batch batch;
    StreamState* stream = nullptr;
    std::vector<Member*> ending;
    Result mistake = Result::success;
  };
  Group& own_group() { return groups_[std::this_thread::get_id()]; }

  std::shared_ptr<NcclWorld::State> world_;
  int rank_;
  std::map<std::thread::id, Group> groups_;
};

NcclWorld::NcclWorld(NcclManner manner) : state_(std::make_shared<State>(std::move(manner))) {}
NcclWorld::~NcclWorld() = default;

std::unique_ptr<nccl::Calls> NcclWorld::calls_of(int rank) {
  return std::make_unique<StandInCalls>(state_, rank);
}
std::vector<std::string> NcclWorld::broken_rules() const {
  const std::lock_guard lock(state_->mutex);
  return state_->broken();
}
std::vector<NcclCall> NcclWorld::calls() const {
  const std::lock_guard lock(state_->mutex);
  return state_->calls();
}
void NcclWorld::lose(int rank, bool silent) {
  const std::lock_guard lock(state_->mutex);
  state_->lose(rank, silent);
}
void NcclWorld::fail(int rank, Result result) {
  const std::lock_guard lock(state_->mutex);
  state_->fail(rank, result);
}

std::vector<std::unique_ptr<Transport>> make_stand_in_transports(
    NcclWorld& world, const Wiring& wiring,
    const std::function<std::unique_ptr<nccl::Calls>(std::unique_ptr<nccl::Calls>, int)>& wrap,
    Duration connect_deadline) {
  auto transports = make_thread_transports(wiring);
  std::vector<std::string> failures(transports.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < transports.size(); ++i) {
      threads.emplace_back([&, i] {
        const int rank = transports[i]->rank();
        auto calls = world.calls_of(rank);
        if (wrap) calls = wrap(std::move(calls), rank);
        try {
          transports[i] = nccl::make_transport(
              std::move(calls), std::move(transports[i]), wiring,
              {.connect_deadline = connect_deadline, .closes_together = false});
        } catch (const Error& error) {
          failures[i] = error.what();
        }
      });
    }
  }
  for (const std::string& failure : failures) {
    if (failure.empty()) continue;
    // Ranks that fail together say the same.
    for (const std::string& other : failures) {
      if (other != failure)
        throw Error(ErrorKind::bug, concat("two reasons: ", failure, "; ", other));
    }
    throw Error(ErrorKind::execution, failure);
  }
  return transports;
}

}  // namespace stagecraft::tests
