// What is still to happen, the next first. Internal to the simulator.
//
// A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990): time only goes forward, so an event need only
// be told apart from now. It lies in the bucket of the highest bit in which its time differs:
//
//   now 0110   0110 → bucket 0   0111 → 1   0100 … 0101 → (gone)   1000 … 1111 → 4
//
// When now reaches the first time of a bucket, its events go to lower ones. No comparison of two
// events decides where one goes, so nothing is mispredicted, and all that happens at one instant
// lies together in bucket 0.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/engines/events/time.hpp"

namespace stagecraft::events {

struct Event {
  Time time = 0;
  int id = 0;
  bool sent = false;  ///< not its end, but the moment its channel is free again
};

class EventQueue {
 public:
  EventQueue() { reset(0); }

  /// Forgets all events.
  void reset(Time now) {
    for (std::vector<Event>& bucket : buckets_) bucket.clear();
    first_.fill(INT64_MAX);
    filled_ = 0;
    now_ = now;
  }

  /// No earlier than now.
  void push(const Event& event) {
    const std::size_t bucket = bucket_of(event.time);
    buckets_[bucket].push_back(event);
    first_[bucket] = std::min(first_[bucket], event.time);
    filled_ |= std::uint64_t{1} << bucket;
  }

  /// The time of the next event.
  std::optional<Time> next() const {
    if (filled_ == 0) return {};
    return first_[static_cast<std::size_t>(std::countr_zero(filled_))];
  }

  /// To this time, no later than the next event's.
  void move_to(Time time) {
    const std::size_t bucket = bucket_of(time);
    now_ = time;
    if (bucket == 0 || (filled_ >> bucket & 1) == 0) return;
    filled_ &= ~(std::uint64_t{1} << bucket);
    first_[bucket] = INT64_MAX;
    moving_.swap(buckets_[bucket]);
    for (const Event& event : moving_) push(event);
    moving_.clear();
  }

  /// An event of now, taken out.
  std::optional<Event> take() {
    std::vector<Event>& bucket = buckets_[0];
    if (bucket.empty()) return {};
    const Event event = bucket.back();
    bucket.pop_back();
    if (bucket.empty()) {
      filled_ &= ~std::uint64_t{1};
      first_[0] = INT64_MAX;
    }
    return event;
  }

 private:
  std::size_t bucket_of(Time time) const {
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(time ^ now_)));
  }

  static constexpr std::size_t buckets = 64;  // times are not negative: 63 bits
  std::array<std::vector<Event>, buckets> buckets_;
  std::array<Time, buckets> first_{};  // of each; of an empty one the greatest
  std::vector<Event> moving_;
  std::uint64_t filled_ = 0;
  Time now_ = 0;
};

}  // namespace stagecraft::events
