// An execution with one compute lane and one communication lane per device, and channels that
// buffer a number of messages, first in, first out. With 0, every send blocks until its receive is
// reached.

#pragma once

#include <optional>
#include <vector>

#include "simulator/checks/facts.hpp"

namespace stagecraft::checks {

/// A compute or communication lane of a device.
struct Place {
  int device = 0;
  bool communication = false;
  auto operator<=>(const Place&) const = default;
};

/// The state of such an execution. It can be copied, to try remedies from the point of a deadlock.
class Rendezvous {
 public:
  /// `capacity`: messages each channel buffers. Keeps a pointer to the facts.
  Rendezvous(const Facts& facts, int capacity);

  void run();
  bool finished() const;

  Place place_of(int work) const;
  /// The first unfinished work of a lane.
  std::optional<int> head(Place place) const;
  bool done(int work) const;
  /// Whether the work is at the head of its lane and its local waits have ended.
  bool arrived(int work) const;
  /// Number of works between the head of its lane and `work`.
  std::size_t distance(int work) const;
  int at_distance(Place place, std::size_t distance) const;
  /// For a send or receive: the receive of the next message in its channel, if there is one.
  std::optional<int> next_receive(int message) const;

  /// Moves `work` before the `steps` works in front of it, then continues.
  void advance(int work, std::size_t steps);

 private:
  static std::size_t index_of(Place place);
  bool at_head(int work) const;
  bool is_buffered(int work) const;
  int channel_of(int work) const;

  void enqueue(int work);
  void look_at_head(std::size_t queue);
  void arrive(int work);
  void meet(int work);
  void post(int send);
  void take(int receive);
  void leave_door(int work);
  void proceed();

  const Facts* facts_;
  std::size_t capacity_;
  std::vector<std::vector<int>> queues_;  // two queues per device: compute, communication
  std::vector<std::size_t> heads_;        // per queue
  std::vector<std::size_t> place_;        // per work: its place in its queue
  std::vector<int> waiting_;              // per work: local waits that have not ended
  std::vector<std::size_t> arrived_;      // per meeting: number of members that have arrived
  std::vector<std::vector<int>>
      buffered_;              // per channel: sends whose message was not taken, oldest first
  std::vector<int> blocked_;  // per channel: the send that waits for room, or none
  std::vector<int> ending_;
};

}  // namespace stagecraft::checks
