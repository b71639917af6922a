#include "executor/measurement/measure_ways.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "executor/measurement/measurement.hpp"
#include "executor/measurement/rounds.hpp"

namespace stagecraft {

namespace {

constexpr int warm_up_copies = 3;
constexpr int repeats = 15;
constexpr Bytes smallest_copy = 4 << 10;

template <class Work>
Duration median_time(const Work& work) {
  std::vector<double> times;
  for (int i = 0; i < warm_up_copies + repeats; ++i) {
    const Moment start = now();
    work();
    if (i >= warm_up_copies) times.push_back(static_cast<double>((now() - start).count()));
  }
  return Duration(std::llround(quantile(std::move(times), 0.5)));
}

/// copy(backend, bytes) returns what takes the time.
template <class Copy>
MeasuredWay measure_way(std::string name, Bytes largest, const Copy& copy) {
  MeasuredWay way{.name = std::move(name), .copies = {}, .fit = {}};
  for (Bytes bytes = smallest_copy; bytes <= largest; bytes *= 4) {
    way.copies.push_back({bytes, copy(bytes)});
    if (way.copies.size() > 1 && way.copies.back().time >= long_copy) break;
  }
  way.fit = fit_way(way.copies);
  return way;
}

}  // namespace

// With weights 1 / time², the normal equations of latency + bytes x slope.
FittedWay fit_way(std::span<const TimedCopy> copies) {
  double s = 0, sx = 0, sxx = 0, st = 0, sxt = 0;
  for (const TimedCopy& copy : copies) {
    const auto x = static_cast<double>(copy.bytes);
    const double t = std::max(static_cast<double>(copy.time.count()), 1.0);
    const double weight = 1 / (t * t);
    s += weight;
    sx += weight * x;
    sxx += weight * x * x;
    st += weight * t;
    sxt += weight * x * t;
  }
  const double determinant = s * sxx - sx * sx;
  assert(determinant > 0);
  double slope = (s * sxt - sx * st) / determinant;
  double latency = (st - slope * sx) / s;
  if (latency < 0) {
    latency = 0;
    slope = sxt / sxx;
  }
  constexpr double most = 1e18;  // bytes per second
  const double rate = slope > 1e9 / most ? 1e9 / slope : most;
  FittedWay fit{.latency = Duration(std::llround(latency)),
                .bandwidth = {std::llround(rate)},
                .worst_error = 0};
  for (const TimedCopy& copy : copies) {
    const double t = std::max(static_cast<double>(copy.time.count()), 1.0);
    const double fitted = latency + std::max(slope, 0.0) * static_cast<double>(copy.bytes);
    fit.worst_error = std::max(fit.worst_error, std::abs(fitted / t - 1));
  }
  return fit;
}

std::vector<MeasuredWay> measure_ways(const MeasuredDevice& device, Bytes largest) {
  const auto backend = device.make_backend(0);
  std::vector<std::byte> process(static_cast<std::size_t>(largest));
  const auto part = [&](Bytes bytes) {
    return std::span(process).first(static_cast<std::size_t>(bytes));
  };
  return {
      measure_way("process to device", largest,
                  [&](Bytes bytes) {
                    Tensor to = zeroed_block(*backend, bytes);
                    return median_time([&] { backend->upload(part(bytes), to); });
                  }),
      measure_way("device to process", largest,
                  [&](Bytes bytes) {
                    const Tensor from = zeroed_block(*backend, bytes);
                    return median_time([&] { backend->download(from, part(bytes)); });
                  }),
      measure_way("within the device", largest,
                  [&](Bytes bytes) {
                    const Tensor from = zeroed_block(*backend, bytes);
                    Tensor to = zeroed_block(*backend, bytes);
                    return median_time([&] {
                      backend->copy(from, to);
                      backend->finish();
                    });
                  }),
  };
}

}  // namespace stagecraft
