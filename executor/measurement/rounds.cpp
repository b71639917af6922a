#include "executor/measurement/rounds.hpp"

#include <algorithm>
#include <vector>

#include "executor/measurement/measurement.hpp"

namespace stagecraft {

namespace {

constexpr int warm_up_rounds = 5;

// What is large takes long, and varies less.
int rounds_of(Bytes bytes) {
  constexpr Bytes enough = Bytes{512} << 20;
  return static_cast<int>(std::clamp<Bytes>(enough / std::max<Bytes>(bytes, 1), 11, 101));
}

// The median of what a round takes until the backend has done it, in nanoseconds.
template <class Round>
double median_round(Backend& backend, Bytes bytes, Round round) {
  std::vector<double> times;
  const int rounds = rounds_of(bytes);
  for (int i = 0; i < warm_up_rounds + rounds; ++i) {
    const Moment start = now();
    round();
    backend.finish();
    if (i >= warm_up_rounds) times.push_back(static_cast<double>((now() - start).count()));
  }
  return quantile(std::move(times), 0.5);
}

}  // namespace

Tensor zeroed_block(Backend& backend, Bytes bytes) {
  Tensor tensor = backend.allocate({bytes / 4}, Precision::float32);
  backend.zero(tensor);
  backend.finish();
  return tensor;
}

// Memory for the answer is there in time, as in a run.
double time_message(Transport& transport, Backend& backend, const RoundTrip& trip, Bytes bytes) {
  const Tensor own = zeroed_block(backend, bytes);
  const Tensor other = zeroed_block(backend, bytes);
  const double both_ways = median_round(backend, bytes, [&] {
    if (trip.begins) {
      transport.post(trip.back, backend, other);
      transport.send(trip.there, backend, own, Moment{0});
      transport.receive(trip.back, backend);
    } else {
      transport.post(trip.there, backend, other);
      transport.send(trip.back, backend, transport.receive(trip.there, backend).tensor, Moment{0});
    }
  });
  return both_ways / 2;
}

double time_sum(Transport& transport, Backend& backend, int group, Bytes bytes) {
  Tensor tensor = zeroed_block(backend, bytes);
  return median_round(backend, bytes, [&] { transport.all_reduce(group, backend, tensor); });
}

}  // namespace stagecraft
