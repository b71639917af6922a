#include "executor/transports/nccl/traffic.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "executor/values/packing.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft::nccl {

namespace {

using namespace std::chrono_literals;

/// Between two looks at what is under way, and where nothing is.
constexpr Duration shortest_nap = 20us, longest_nap = 200us, idle_nap = 5ms;
/// For what is under way when a run ends; by then all ranks have called for all of it.
constexpr Duration patience_at_end = 5s;

[[noreturn]] void fail_execution(const std::string& reason) {
  throw Error(ErrorKind::execution, reason);
}

/// The place among the members, if it is one of them.
std::optional<int> place_in(const std::vector<int>& members, int rank) {
  const auto found = std::ranges::find(members, rank);
  if (found == members.end()) return {};
  return static_cast<int>(found - members.begin());
}

/// Why these GPUs cannot be connected; empty if they can.
std::string fault_of_devices(const std::vector<std::string>& devices) {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (devices[i] != devices[j]) continue;
      return concat("--transport nccl: ranks ", j, " and ", i, " share a GPU (", devices[i],
                    "), and NCCL connects only different ones; start one process per GPU, or let "
                    "--transport threads run several ranks on one");
    }
  }
  return "";
}

/// Between a group's begin and its end, which comes whatever else does: left open, it would take in
/// all that its thread asks for later, and nothing of that would ever begin.
class Group {
 public:
  explicit Group(Calls& calls)
      : calls_(calls), begun_(calls.group_start()), is_open_(begun_ == Result::success) {}
  ~Group() {
    if (is_open_) (void)calls_.group_end();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  Result begun() const { return begun_; }
  Result end() {
    is_open_ = false;
    return calls_.group_end();
  }

 private:
  Calls& calls_;
  Result begun_;
  bool is_open_;
};

}  // namespace

// --- Connecting
// ----------------------------------------------------------------------------------

Traffic::Traffic(Calls& calls, Transport& control, std::vector<LinkPlan> plans,
                 const Settings& settings)
    : calls_(calls), control_(control), settings_(settings) {
  std::vector<int> leaders;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    leaders.push_back(plans[i].members.front());
    if (place_in(plans[i].members, control.rank())) {
      links_.emplace(static_cast<int>(i), Link{.plan = std::move(plans[i])});
    }
  }
  const std::vector<UniqueId> ids = exchange_ids(leaders);
  try {
    for (auto& [i, link] : links_) connect(link, ids[index(i)]);
    attendant_ = std::jthread([this] { attend(); });
    for (const auto& [i, link] : links_) try_out(i);
  } catch (const Error& error) {
    const std::string reason = concat("rank ", control_.rank(), " cannot connect: ", error.what());
    const std::string first = control_.abort(control_.aborted().value_or(reason));
    stop(first);
    close();
    fail_execution(first);
  }
}

/// By link. Each leader makes its links' names; all hear them from rank 0.
std::vector<UniqueId> Traffic::exchange_ids(const std::vector<int>& leaders) {
  Packer own;
  own.put_bytes(calls_.device());
  for (std::size_t i = 0; i < leaders.size(); ++i) {
    if (leaders[i] != control_.rank()) continue;
    UniqueId id{};
    require(links_.at(static_cast<int>(i)), calls_.get_unique_id(id), "name");
    own.put(id);
  }
  const std::vector<std::string> said = control_.gather(own.take());
  std::vector<Unpacker> of_ranks(said.begin(), said.end());
  std::vector<std::string> devices;
  for (Unpacker& unpacker : of_ranks) devices.emplace_back(unpacker.get_bytes());
  Packer all;
  all.put_bytes(fault_of_devices(devices));
  for (std::size_t i = 0; control_.rank() == 0 && i < leaders.size(); ++i) {
    all.put(of_ranks[index(leaders[i])].get<UniqueId>());
  }
  const std::string heard = control_.broadcast(all.take());
  Unpacker unpacker(heard);
  const std::string_view fault = unpacker.get_bytes();
  if (!fault.empty()) fail_execution(std::string(fault));
  std::vector<UniqueId> ids(leaders.size());
  for (UniqueId& id : ids) id = unpacker.get<UniqueId>();
  return ids;
}

void Traffic::connect(Link& link, const UniqueId& id) {
  Lock lock(mutex_);
  link.stream = calls_.make_stream();
  const int place = *place_in(link.plan.members, control_.rank());
  const auto members = static_cast<int>(link.plan.members.size());
  const Result result = calls_.init_rank(link.communicator, members, id, place);
  settle(lock, link, result, "connect", now() + settings_.connect_deadline);
}

/// Else the first message would have to set up the way, and its sender wait for its receiver.
void Traffic::try_out(int link) {
  try_messages(link);
  if (links_.at(link).plan.adds_up) try_sums(link);
}

/// A byte from each member to each other one, or along the link if it has two ends.
void Traffic::try_messages(int link) {
  const std::vector<int>& members = links_.at(link).plan.members;
  const int own = *place_in(members, control_.rank());
  const bool is_one_way = links_.at(link).plan.is_one_way;
  const auto bytes = calls_.allocate(static_cast<Bytes>(2 * members.size()));
  const auto byte = [&](std::size_t i) {
    return std::shared_ptr<void>(bytes, static_cast<char*>(bytes.get()) + i);
  };
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const int place = static_cast<int>(i);
    if (place == own) continue;
    if (!is_one_way || own == 0) {
      pieces.push_back({.is_sent = true, .place = place, .data = byte(2 * i), .bytes = 1});
    }
    if (!is_one_way || own != 0) {
      pieces.push_back({.is_sent = false, .place = place, .data = byte(2 * i + 1), .bytes = 1});
    }
  }
  await_trial(link, *start(link, std::move(pieces)));
}

/// A number for each member, whatever it is. These sums have ways of their own.
void Traffic::try_sums(int link) {
  const std::size_t members = links_.at(link).plan.members.size();
  if (members == 1) return;
  const auto numbers = calls_.allocate(static_cast<Bytes>(members * sizeof(float)));
  for (const bool is_scattered : {false, true}) {
    const NativeSum sum{.data = numbers, .elements = members, .is_scattered = is_scattered};
    await_trial(link, *start(link, sum));
  }
}

void Traffic::await_trial(int link, const Operation& operation) {
  Lock lock(mutex_);
  const bool ended = changed_.wait_for(lock, settings_.connect_deadline, [&] {
    return operation.done.has_value() || stopped_.has_value();
  });
  throw_if_stopped();
  if (!ended) fail_late(links_.at(link));
}

// --- Operations
// ----------------------------------------------------------------------------------

std::shared_ptr<Operation> Traffic::start(int link_index, std::vector<Piece> pieces) {
  std::erase_if(pieces, [](const Piece& piece) { return piece.bytes == 0; });
  Lock lock(mutex_);
  throw_if_stopped();
  if (pieces.empty()) {
    auto nothing = std::make_shared<Operation>();
    nothing->done = now();
    return nothing;
  }
  const Link& link = links_.at(link_index);
  auto operation = std::make_shared<Operation>();
  operation->pieces = std::move(pieces);
  start_group(lock, link, operation, [&] {
    for (const Piece& piece : operation->pieces) {
      require(link,
              piece.is_sent ? calls_.send(piece.data.get(), piece.bytes, piece.place,
                                          link.communicator, link.stream)
                            : calls_.receive(piece.data.get(), piece.bytes, piece.place,
                                             link.communicator, link.stream),
              piece.is_sent ? "send on" : "receive on");
    }
  });
  return operation;
}

std::shared_ptr<Operation> Traffic::start(int link_index, const NativeSum& sum) {
  Lock lock(mutex_);
  throw_if_stopped();
  const Link& link = links_.at(link_index);
  const auto members = link.plan.members.size();
  auto operation = std::make_shared<Operation>();
  operation->summed = sum.data;
  start_group(lock, link, operation, [&] {
    require(link,
            sum.is_scattered
                ? calls_.reduce_scatter(sum.data.get(), sum.elements / members, sum.precision,
                                        *place_in(link.plan.members, control_.rank()),
                                        link.communicator, link.stream)
                : calls_.all_reduce(sum.data.get(), sum.elements, sum.precision, link.communicator,
                                    link.stream),
            "add up on");
  });
  return operation;
}

/// Under the lock: what `ask` asks for, as one operation that is under way. Where that fails NCCL
/// may have begun with it, so its memory stays until the communicators are gone.
template <class Ask>
void Traffic::start_group(Lock& lock, const Link& link, const std::shared_ptr<Operation>& operation,
                          const Ask& ask) {
  asked_.push_back(operation);
  Group group(calls_);
  require(link, group.begun(), "begin a group on");
  ask();
  settle(lock, link, group.end(), "start a group on", {});
  operation->event = calls_.record(link.stream);
  std::erase(asked_, operation);
  under_way_.push_back(operation);
  changed_.notify_all();
}

bool Traffic::is_done(const Operation& operation) {
  const Lock lock(mutex_);
  return operation.done.has_value();
}

Moment Traffic::await(const Operation& operation) {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return operation.done || stopped_; });
  if (!operation.done) throw_if_stopped();
  return *operation.done;
}

// --- Waiting, and failing
// ------------------------------------------------------------------------

void Traffic::settle(Lock& lock, const Link& link, Result result, const char* what,
                     std::optional<Moment> deadline) {
  while (result == Result::in_progress) {
    lock.unlock();
    std::this_thread::sleep_for(shortest_nap);
    const std::optional<std::string> heard = control_.aborted();
    lock.lock();
    throw_if_stopped();
    if (heard) fail_execution(*heard);
    if (deadline && now() > *deadline) fail_late(link);
    Result state = Result::success;
    require(link, calls_.async_error(link.communicator, state), "tell the state of");
    result = state;
  }
  require(link, result, what);
}

void Traffic::require(const Link& link, Result result, const char* what) {
  if (result == Result::success || result == Result::in_progress) return;
  fail_execution(concat("NCCL cannot ", what, " the link ", link.plan.name, ": ",
                        calls_.describe(result, link.communicator)));
}

void Traffic::fail_late(const Link& link) {
  fail_execution(concat("the link ", link.plan.name, " is not there after ",
                        format_duration(settings_.connect_deadline),
                        "; NCCL_DEBUG=INFO shows what NCCL tries"));
}

void Traffic::throw_if_stopped() {
  if (stopped_) fail_execution(*stopped_);
}

// --- The attendant
// -------------------------------------------------------------------------------

void Traffic::attend() {
  Lock lock(mutex_);
  Duration nap = shortest_nap;
  while (!closing_) {
    const bool ended = !stopped_ && look_around(lock);
    nap = ended ? shortest_nap : std::min(2 * nap, longest_nap);
    if (!stopped_ && !under_way_.empty()) {
      changed_.wait_for(lock, nap, [&] { return closing_; });
      continue;
    }
    const auto wakes = [&] { return closing_ || (!stopped_ && !under_way_.empty()); };
    changed_.wait_for(lock, idle_nap, wakes);
    nap = shortest_nap;
  }
}

/// Whether operations have ended. Stops where other ranks have, or where NCCL or CUDA has failed;
/// the others then hear of it.
bool Traffic::look_around(Lock& lock) {
  std::optional<std::string> reason = control_.aborted();
  if (!reason) {
    try {
      reason = failure();
      if (!reason) return collect();
    } catch (const Error& error) {
      reason = concat("rank ", control_.rank(), ": ", error.what());
    }
    lock.unlock();
    reason = control_.abort(*reason);
    lock.lock();
  }
  if (!stopped_) stop_all(*reason);
  return false;
}

/// What NCCL has found out by itself since.
std::optional<std::string> Traffic::failure() {
  for (const auto& [i, link] : links_) {
    if (link.communicator == nullptr) continue;  // ended before the others
    Result state = Result::success;
    const Result result = calls_.async_error(link.communicator, state);
    if (result == Result::success) {
      if (state == Result::success || state == Result::in_progress) continue;
    }
    return concat("rank ", control_.rank(), ": the link ", link.plan.name, " has failed: ",
                  calls_.describe(result == Result::success ? state : result, link.communicator));
  }
  return {};
}

/// Whether some have ended.
bool Traffic::collect() {
  const std::size_t before = under_way_.size();
  std::erase_if(under_way_, [&](const std::shared_ptr<Operation>& operation) {
    if (!calls_.is_done(operation->event)) return false;
    calls_.destroy_event(operation->event);
    operation->pieces.clear();
    operation->summed = nullptr;
    operation->done = now();
    return true;
  });
  if (under_way_.size() == before) return false;
  changed_.notify_all();
  return true;
}

void Traffic::stop(const std::string& reason) {
  const Lock lock(mutex_);
  if (!stopped_) stop_all(reason);
}

/// Under the lock. What was under way keeps its memory until this is gone.
void Traffic::stop_all(const std::string& reason) {
  stopped_ = reason;
  is_over_ = abort_links();
  changed_.notify_all();
}

/// Whether they are gone. All at once: each waits for its own messages to end, and on the GPU they
/// may be behind those of another link.
bool Traffic::abort_links() {
  Group group(calls_);
  bool all = group.begun() == Result::success;
  for (auto& [i, link] : links_) {
    if (link.communicator == nullptr) continue;
    all &= calls_.abort(std::exchange(link.communicator, nullptr)) == Result::success;
  }
  return group.begun() == Result::success && group.end() == Result::success && all;
}

// --- The end
// -------------------------------------------------------------------------------------

Traffic::~Traffic() {
  try {
    if (settings_.closes_together) control_.barrier();
    finish();
  } catch (const Error& error) {
    stop(error.what());
  }
  close();
}

/// In peace: all is done, and every member of a link says so.
void Traffic::finish() {
  Lock lock(mutex_);
  const auto over = [&] { return under_way_.empty() || stopped_; };
  if (!changed_.wait_for(lock, patience_at_end, over)) fail_execution("messages were left over");
  throw_if_stopped();
  for (auto& [i, link] : links_) {
    settle(lock, link, calls_.finalize(link.communicator), "end", now() + patience_at_end);
    require(link, calls_.destroy(std::exchange(link.communicator, nullptr)), "end");
  }
}

void Traffic::close() {
  {
    const Lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  if (attendant_.joinable()) attendant_.join();
  if (!is_over_) return leave_behind();
  for (const auto& operation : under_way_) calls_.destroy_event(operation->event);
  under_way_.clear();
  for (const auto& [i, link] : links_) {
    if (link.stream != nullptr) calls_.destroy_stream(link.stream);
  }
  links_.clear();
}

/// What NCCL has not let go of: memory, events and streams that it may use for as long as the
/// process lives, which has failed anyway.
void Traffic::leave_behind() {
  static std::mutex mutex;
  static auto* const left = std::make_unique<std::vector<std::shared_ptr<Operation>>>().release();
  const std::lock_guard lock(mutex);
  left->insert(left->end(), asked_.begin(), asked_.end());
  left->insert(left->end(), under_way_.begin(), under_way_.end());
}

}  // namespace stagecraft::nccl
