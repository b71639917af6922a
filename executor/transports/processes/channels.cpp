#include "executor/transports/processes/channels.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace stagecraft::processes {

namespace {

/// Tags of a channel's three kinds of messages.
enum class Kind : int { header, bytes, note };
int tag_of(int channel, Kind kind) {
  return 3 * channel + static_cast<int>(kind);
}

std::chrono::steady_clock::time_point time_point(Moment moment) {
  using Clock = std::chrono::steady_clock;
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(moment));
}

}  // namespace

/// A message on its way in: its header and its memory come in either order.
struct IncomingMessage {
  std::optional<Header> header;
  Tensor memory;
  bool has_memory = false;
  std::optional<Moment> whole;  ///< since when all its bytes are there
};

/// Which of the messages that `receive` has not taken yet.
using IncomingQueue = std::deque<std::shared_ptr<IncomingMessage>>;
static std::shared_ptr<IncomingMessage>& at(IncomingQueue& queue, std::size_t i) {
  while (queue.size() <= i) queue.push_back(std::make_shared<IncomingMessage>());
  return queue[i];
}

/// Shared with what is under way, which may outlive the transport after an abort.
struct Channel::State : std::enable_shared_from_this<State> {
  int index = 0;
  ChannelEnds ends;
  Duration ahead{0};
  Progress* progress = nullptr;
  std::shared_ptr<World> world;
  std::shared_ptr<const Messenger> messenger;

  // Guarded by the world's mutex:
  int held = 0;               ///< sent and not received yet
  long sent = 0;              ///< ever
  long delivered = 0;         ///< the first ones of them have left this rank's memory
  std::set<long> left_early;  ///< later ones that have, too
  IncomingQueue incoming;     ///< the first ones have headers, the first ones have memory
  std::size_t with_header = 0;
  std::size_t with_memory = 0;

  // Of the progress thread:
  std::shared_ptr<Header> next_header = std::make_shared<Header>();
  std::shared_ptr<char> next_note = std::make_shared<char>();
  std::optional<long> awaited_header, awaited_note;

  bool is_counted() const { return ends.capacity < std::numeric_limits<int>::max(); }

  void await_header();
  void await_note();
  void note_delivery(long message);
  void give(const Tensor& memory);
};

/// On the progress thread.
void Channel::State::await_header() {
  const Piece piece{.peer = ends.from,
                    .tag = tag_of(index, Kind::header),
                    .data = next_header.get(),
                    .bytes = sizeof(Header),
                    .owner = next_header};
  awaited_header = messenger->receive(piece, [self = shared_from_this()](bool) {
    const Header header = *self->next_header;
    self->await_header();
    const std::lock_guard lock(self->world->mutex);
    at(self->incoming, self->with_header++)->header = header;
    self->world->changed.notify_all();
  });
}

/// On the progress thread.
void Channel::State::await_note() {
  const Piece piece{.peer = ends.to,
                    .tag = tag_of(index, Kind::note),
                    .data = next_note.get(),
                    .bytes = 1,
                    .owner = next_note};
  awaited_note = messenger->receive(piece, [self = shared_from_this()](bool) {
    self->await_note();
    const std::lock_guard lock(self->world->mutex);
    --self->held;
    self->world->changed.notify_all();
  });
}

/// On the progress thread. The carrier may let go of messages in another order.
void Channel::State::note_delivery(long message) {
  const std::lock_guard lock(world->mutex);
  left_early.insert(message);
  while (left_early.erase(delivered) > 0) ++delivered;
  world->changed.notify_all();
}

/// Memory for the next message that has none; its bytes are asked for in this order.
void Channel::State::give(const Tensor& memory) {
  std::shared_ptr<IncomingMessage> message;
  {
    Lock lock(world->mutex);
    world->wait(lock, [] { return true; });
    message = at(incoming, with_memory++);
    message->memory = memory;
    message->has_memory = true;
  }
  progress->soon([self = shared_from_this(), message] {
    const Piece piece =
        piece_of(message->memory, self->ends.from, tag_of(self->index, Kind::bytes));
    // Whether it is whole can be seen from the header, which is there by then.
    self->messenger->receive(piece, [self, message](bool) {
      const std::lock_guard lock(self->world->mutex);
      message->whole = now();
      self->world->changed.notify_all();
    });
  });
}

// --- On the rank's thread
// ------------------------------------------------------------------------

Channel::Channel(int index, const ChannelEnds& ends, int rank, Duration ahead, Progress& progress,
                 std::shared_ptr<World> world, std::shared_ptr<const Messenger> messenger)
    : state_(std::make_shared<State>()) {
  state_->index = index;
  state_->ends = ends;
  state_->ahead = ahead;
  state_->progress = &progress;
  state_->world = std::move(world);
  state_->messenger = std::move(messenger);
  progress.soon([state = state_, rank] {
    if (state->ends.to == rank) state->await_header();
    if (state->ends.from == rank && state->is_counted()) state->await_note();
  });
}

void Channel::send(Tensor tensor, Moment available_at, MessageLabel label) {
  assert(tensor.shape.size() <= Header{}.shape.size());
  long message = 0;
  {
    Lock lock(state_->world->mutex);
    state_->world->wait(lock, [&] { return state_->held < state_->ends.capacity; });
    if (state_->is_counted()) ++state_->held;
    message = state_->sent++;
  }
  const Moment sent = now() - state_->ahead;
  const auto header =
      std::make_shared<Header>(Header{.label = label,
                                      .sent = sent,
                                      .available = std::max(sent, available_at - state_->ahead),
                                      .bytes = tensor.bytes(),
                                      .precision = tensor.precision,
                                      .dimensions = static_cast<int>(tensor.shape.size())});
  std::ranges::copy(tensor.shape, header->shape.begin());
  state_->progress->soon([state = state_, header, message, tensor = std::move(tensor)] {
    state->messenger->send({.peer = state->ends.to,
                            .tag = tag_of(state->index, Kind::header),
                            .data = header.get(),
                            .bytes = sizeof(Header),
                            .owner = header},
                           [] {});
    state->messenger->send(piece_of(tensor, state->ends.to, tag_of(state->index, Kind::bytes)),
                           [state, message] { state->note_delivery(message); });
  });
}

void Channel::wait_for_delivery(long messages) {
  Lock lock(state_->world->mutex);
  state_->world->wait(lock, [&] { return state_->delivered >= messages; });
}

void Channel::post(const Tensor& memory) {
  state_->give(memory);
}

Arrival Channel::receive(Backend& backend) {
  World& world = *state_->world;
  std::shared_ptr<IncomingMessage> message;
  bool has_memory = false;
  {
    Lock lock(world.mutex);
    world.wait(lock, [&] { return at(state_->incoming, 0)->header.has_value(); });
    message = state_->incoming.front();
    has_memory = message->has_memory;
  }
  const Header& header = *message->header;
  if (!has_memory) {
    const auto first = header.shape.begin();
    state_->give(backend.allocate({first, first + header.dimensions}, header.precision));
  }
  if (message->memory.bytes() != header.bytes) {
    throw Error(ErrorKind::execution,
                concat("a message of ", header.bytes, " bytes does not fit memory posted for ",
                       message->memory.bytes()));
  }
  Lock lock(world.mutex);
  world.wait(lock, [&] { return message->whole.has_value(); });
  const Moment arrived = std::max(*message->whole, header.available + state_->ahead);
  world.changed.wait_until(lock, time_point(arrived), [&] { return world.aborted.has_value(); });
  world.wait(lock, [] { return true; });
  state_->incoming.pop_front();
  --state_->with_header;
  --state_->with_memory;
  lock.unlock();
  if (state_->is_counted()) {
    const auto note = std::make_shared<char>();
    state_->progress->soon([state = state_, note] {
      state->messenger->send({.peer = state->ends.from,
                              .tag = tag_of(state->index, Kind::note),
                              .data = note.get(),
                              .bytes = 1,
                              .owner = note},
                             [] {});
    });
  }
  return {.tensor = std::move(message->memory),
          .label = header.label,
          .sent = header.sent + state_->ahead,
          .arrived = arrived};
}

void Channel::close() {
  for (const auto& awaited : {state_->awaited_header, state_->awaited_note}) {
    if (awaited) state_->progress->cancel(*awaited);
  }
}

}  // namespace stagecraft::processes
