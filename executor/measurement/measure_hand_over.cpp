// Messages between two ranks that are threads: there and back for latency and bandwidth, and a sum
// over both.

#include <algorithm>
#include <cmath>
#include <thread>

#include "executor/measurement/measurement.hpp"
#include "executor/transport.hpp"

namespace stagecraft {

namespace {

constexpr int there = 0;
constexpr int back = 1;
constexpr int rounds = 101;
constexpr int warm_up = 10;

using Ends = std::vector<std::unique_ptr<Transport>>;

Ends connect() {
  return make_thread_transports({.ranks = 2, .channels = {{0, 1}, {1, 0}}, .groups = {{0, 1}}});
}

// Runs both ranks; the median of what the first one's rounds take, in nanoseconds.
template <class First, class Second>
double median_round(const MeasuredDevice& device, First first, Second second) {
  const Ends ends = connect();
  std::vector<double> times;
  const std::jthread other([&] {
    const auto backend = device.make_backend(1);
    for (int i = 0; i < warm_up + rounds; ++i) second(*ends[1], *backend);
  });
  const auto backend = device.make_backend(0);
  for (int i = 0; i < warm_up + rounds; ++i) {
    const Moment start = now();
    first(*ends[0], *backend);
    if (i >= warm_up) times.push_back(static_cast<double>((now() - start).count()));
  }
  return quantile(std::move(times), 0.5);
}

Tensor message(Backend& backend, Bytes bytes) {
  Tensor tensor = backend.allocate({bytes / 4}, Precision::float32);
  backend.zero(tensor);
  return tensor;
}

// Memory for the answer is there in time, as in a run.
double one_way(const MeasuredDevice& device, Bytes bytes) {
  const auto first = [&](Transport& transport, Backend& backend) {
    transport.post(back, backend, backend.allocate({bytes / 4}, Precision::float32));
    transport.send(there, backend, message(backend, bytes), Moment{0});
    transport.receive(back, backend);
  };
  const auto second = [&](Transport& transport, Backend& backend) {
    transport.post(there, backend, backend.allocate({bytes / 4}, Precision::float32));
    transport.send(back, backend, transport.receive(there, backend).tensor, Moment{0});
  };
  return median_round(device, first, second) / 2;
}

double all_reduce(const MeasuredDevice& device, Bytes bytes) {
  const auto both = [&](Transport& transport, Backend& backend) {
    Tensor tensor = message(backend, bytes);
    transport.all_reduce(0, backend, tensor);
  };
  return median_round(device, both, both);
}

// From the time that the message takes longer than an empty one. Both vary; it is at least half of
// its own.
Bandwidth bandwidth(Bytes bytes, double message, double empty) {
  const double time = std::max({message - empty, message / 2, 1.0});
  return {std::llround(static_cast<double>(bytes) / time * 1e9)};
}

}  // namespace

Duration measure_one_way(Bytes bytes, const MeasuredDevice& device) {
  return Duration(std::llround(one_way(device, bytes)));
}

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
