// The link between two ranks that are threads.

#include <algorithm>
#include <cmath>
#include <thread>

#include "executor/measurement/measurement.hpp"
#include "executor/measurement/rounds.hpp"
#include "executor/transports/transport.hpp"

namespace stagecraft {

namespace {

// Both ranks do it; what it takes on the first one, in nanoseconds.
template <class Work>
double on_two_ranks(const MeasuredDevice& device, Work work) {
  const auto ends =
      make_thread_transports({.ranks = 2, .channels = {{0, 1}, {1, 0}}, .groups = {{0, 1}}});
  const std::jthread other([&] { work(*ends[1], *device.make_backend(1)); });
  return work(*ends[0], *device.make_backend(0));
}

double one_way(const MeasuredDevice& device, Bytes bytes) {
  return on_two_ranks(device, [&](Transport& transport, Backend& backend) {
    const RoundTrip trip{.there = 0, .back = 1, .begins = transport.rank() == 0};
    return time_message(transport, backend, trip, bytes);
  });
}

double all_reduce(const MeasuredDevice& device, Bytes bytes) {
  return on_two_ranks(device, [&](Transport& transport, Backend& backend) {
    return time_sum(transport, backend, 0, bytes);
  });
}

// From the time that the message takes longer than an empty one. Both vary; it is at least half of
// its own.
Bandwidth bandwidth(Bytes bytes, double message, double empty) {
  const double time = std::max({message - empty, message / 2, 1.0});
  return {std::llround(static_cast<double>(bytes) / time * 1e9)};
}

}  // namespace

Link measure_hand_over(Bytes message, const MeasuredDevice& device) {
  // Large enough for its bytes to be what takes time.
  constexpr Bytes least = 4 << 20;
  const Bytes bytes = std::max(message / 4 * 4, least);
  const double latency = one_way(device, 4);
  return {.latency = Duration(std::llround(latency)),
          .point_to_point = bandwidth(bytes, one_way(device, bytes), latency),
          // Of two ranks, each sends as many bytes as the message has.
          .collective = bandwidth(bytes, all_reduce(device, bytes), all_reduce(device, 4))};
}

}  // namespace stagecraft
