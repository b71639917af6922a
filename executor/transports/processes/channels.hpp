// Channels between ranks that are processes.
//
// A message is two: a header, for which the receiver's progress thread always waits, and the bytes,
// which it asks for as soon as it has memory for them, posted or by `receive`. What the
// carrier lets go of is the sender's no more. When a message is received, a note goes back: so the
// sender knows how many the channel holds.
//
//   send ──→ header, bytes ─────→ posted memory │ receive ──→ note ──→ room for another
//
// Capacity is counted, never left to the carrier's buffers: how much those take depends on sizes
// and links.

#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "executor/transports/processes/messenger.hpp"
#include "executor/transports/transport.hpp"

namespace stagecraft::processes {

/// What travels ahead of a message. Moments are those of rank 0's clock.
struct Header {
  MessageLabel label;
  Moment sent{0};
  Moment available{0};
  Bytes bytes = 0;
  Precision precision = Precision::float32;
  int dimensions = 0;
  std::array<std::int64_t, 8> shape{};
};

/// One end, or both, of a channel, on one rank. All calls on the rank's own thread.
class Channel {
 public:
  Channel(int index, const ChannelEnds& ends, int rank, Duration ahead, Progress& progress,
          std::shared_ptr<World> world, std::shared_ptr<const Messenger> messenger);

  void send(Tensor tensor, Moment available_at, MessageLabel label);
  void wait_for_delivery(long messages);
  void post(const Tensor& memory);
  Arrival receive(Backend& backend);

  /// When nothing is under way any more, on the progress thread.
  void close();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace stagecraft::processes
