#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "planner/calibration/timeline_costs.hpp"

namespace stagecraft {

namespace {

/// Transfers alike, by their typical time.
struct Point {
  double rounds = 0, bytes = 0, time = 0, weight = 0;
};

std::vector<Point> points_of(const std::vector<Transfer>& transfers) {
  std::map<std::pair<int, Bytes>, std::vector<Duration>> alike;
  for (const Transfer& transfer : transfers)
    alike[{transfer.rounds, transfer.bytes}].push_back(transfer.time);
  std::vector<Point> points;
  for (const auto& [size, times] : alike) {
    const auto time = static_cast<double>(std::max(typical_time(times), Duration{1}).count());
    points.push_back({.rounds = static_cast<double>(size.first),
                      .bytes = static_cast<double>(size.second),
                      .time = time,
                      .weight = static_cast<double>(times.size()) / (time * time)});
  }
  return points;
}

Bandwidth bandwidth_of(double nanoseconds_per_byte) {
  if (!(nanoseconds_per_byte > 1e-9)) return Bandwidth::unlimited();
  return {std::max<std::int64_t>(1, std::llround(1e9 / nanoseconds_per_byte))};
}

/// Nanoseconds per byte that are left when rounds have this latency.
double per_byte(const std::vector<Point>& points, double latency) {
  double top = 0, bottom = 0;
  for (const Point& point : points) {
    top += point.weight * point.bytes * (point.time - latency * point.rounds);
    bottom += point.weight * point.bytes * point.bytes;
  }
  return bottom > 0 ? std::max(top / bottom, 0.0) : 0;
}

/// Nanoseconds per round when bytes take this long.
double per_round(const std::vector<Point>& points, double byte) {
  double top = 0, bottom = 0;
  for (const Point& point : points) {
    top += point.weight * point.rounds * (point.time - byte * point.bytes);
    bottom += point.weight * point.rounds * point.rounds;
  }
  return bottom > 0 ? std::max(top / bottom, 0.0) : 0;
}

/// Both at once; where one would be negative, it is zero.
std::pair<double, double> solve(const std::vector<Point>& points) {
  double rr = 0, rb = 0, bb = 0, rt = 0, bt = 0;
  for (const Point& point : points) {
    rr += point.weight * point.rounds * point.rounds;
    rb += point.weight * point.rounds * point.bytes;
    bb += point.weight * point.bytes * point.bytes;
    rt += point.weight * point.rounds * point.time;
    bt += point.weight * point.bytes * point.time;
  }
  const double determinant = rr * bb - rb * rb;
  const double latency = (bb * rt - rb * bt) / determinant;
  const double byte = (rr * bt - rb * rt) / determinant;
  if (!(latency > 0)) return {0, per_byte(points, 0)};
  if (!(byte > 0)) return {per_round(points, 0), 0};
  return {latency, byte};
}

/// Whether sizes differ enough to tell latency from bandwidth.
bool sizes_differ(const std::vector<Point>& points) {
  const auto [least, most] = std::ranges::minmax_element(
      points, {}, [](const Point& point) { return point.bytes / point.rounds; });
  return most->bytes / most->rounds > 1.25 * least->bytes / least->rounds;
}

}  // namespace

LatencyAndBandwidth fit_transfers(const std::vector<Transfer>& transfers,
                                  LatencyAndBandwidth before, bool fixed) {
  const std::vector<Point> points = points_of(transfers);
  if (points.empty()) return before;
  if (!fixed && sizes_differ(points)) {
    const auto [latency, byte] = solve(points);
    return {.latency = Duration(std::llround(latency)), .bandwidth = bandwidth_of(byte)};
  }
  auto latency = static_cast<double>(before.latency.count());
  if (!fixed) latency = std::min(latency, per_round(points, 0) / 2);
  const double byte = per_byte(points, latency);
  if (byte == 0 && !fixed) latency = per_round(points, 0);
  return {.latency = Duration(std::llround(latency)), .bandwidth = bandwidth_of(byte)};
}

}  // namespace stagecraft
