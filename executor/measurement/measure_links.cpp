#include "executor/measurement/measure_links.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "executor/driver/ranks.hpp"
#include "executor/measurement/rounds.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr Bytes smallest_message = 4 << 10;

/// A level, as its ranks are connected: rank 0's group of one rank of every part is the first.
struct ConnectedLevel {
  std::vector<std::vector<int>> groups;
  bool joins_boxes = false;
  RoundTrip trip;       ///< between the first two of that group
  int first_group = 0;  ///< of the transport
};

bool is_member(const std::vector<int>& group, int rank) {
  return std::ranges::find(group, rank) != group.end();
}

// Ranks `first`, `first` + `step` ….
std::vector<int> every(int step, int first, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
  return ranks;
}

std::vector<ConnectedLevel> levels_of(const RankGrid& grid) {
  std::vector<ConnectedLevel> levels;
  const auto [boxes, ranks] = grid;
  if (boxes > 1) {
    ConnectedLevel& level = levels.emplace_back();
    level.joins_boxes = true;
    for (int i = 0; i < ranks; ++i) level.groups.push_back(every(ranks, i, boxes));
  }
  if (ranks > 1) levels.emplace_back().groups.push_back(every(1, 0, ranks));
  int channel = 0, group = 0;
  for (ConnectedLevel& level : levels) {
    level.trip = {.there = channel, .back = channel + 1};
    level.first_group = group;
    channel += 2;
    group += static_cast<int>(level.groups.size());
  }
  return levels;
}

Wiring wiring_of(const RankGrid& grid, const std::vector<ConnectedLevel>& levels) {
  Wiring wiring{.ranks = grid.ranks(), .channels = {}, .groups = {}};
  for (const ConnectedLevel& level : levels) {
    const int other = level.groups.front()[1];
    wiring.channels.push_back({0, other});
    wiring.channels.push_back({other, 0});
    wiring.groups.insert(wiring.groups.end(), level.groups.begin(), level.groups.end());
  }
  return wiring;
}

/// One rank's part in it all.
class Measurement {
 public:
  Measurement(Transport& transport, Backend& backend, Bytes largest)
      : transport_(transport), backend_(backend), largest_(largest) {}

  MeasuredLevel level(const ConnectedLevel& level) {
    MeasuredLevel measured{.count = static_cast<int>(level.groups.front().size()),
                           .joins_boxes = level.joins_boxes};
    measured.messages = of_all_sizes([&](Bytes bytes) { return message(level, bytes); });
    measured.sums = of_all_sizes([&](Bytes bytes) { return sum(level, 1, bytes); });
    measured.message = fit_way(measured.messages);
    measured.sum = fit_way(measured.sums);
    measured.rails = rails(level, measured.sums.back());
    return measured;
  }

 private:
  /// Until rank 0 says that they take long.
  template <class Measure>
  std::vector<TimedCopy> of_all_sizes(const Measure& measure) {
    std::vector<TimedCopy> copies;
    for (Bytes bytes = smallest_message; bytes <= largest_; bytes *= 4) {
      copies.push_back({bytes, measure(bytes)});
      const bool goes_on = copies.size() < 2 || copies.back().time < long_copy;
      if (transport_.broadcast(rank() == 0 && goes_on ? "on" : "").empty()) break;
    }
    return copies;
  }

  Duration message(const ConnectedLevel& level, Bytes bytes) {
    transport_.barrier();
    const std::vector<int>& ends = level.groups.front();
    if (rank() != ends[0] && rank() != ends[1]) return {};
    RoundTrip trip = level.trip;
    trip.begins = rank() == ends[0];
    return rounded(time_message(transport_, backend_, trip, bytes));
  }

  /// In the first so many groups at once.
  Duration sum(const ConnectedLevel& level, std::size_t groups, Bytes bytes) {
    transport_.barrier();
    for (std::size_t i = 0; i < groups; ++i) {
      if (!is_member(level.groups[i], rank())) continue;
      const int group = level.first_group + static_cast<int>(i);
      return rounded(time_sum(transport_, backend_, group, bytes));
    }
    return {};
  }

  int rails(const ConnectedLevel& level, const TimedCopy& alone) {
    const std::size_t groups = level.groups.size();
    if (groups == 1) return 1;
    const auto at_once = static_cast<double>(sum(level, groups, alone.bytes).count());
    const auto once = static_cast<double>(alone.time.count());
    const auto most = static_cast<double>(groups);
    return static_cast<int>(
        std::clamp(std::round(most * once / std::max(at_once, 1.0)), 1.0, most));
  }

  static Duration rounded(double nanoseconds) { return Duration(std::llround(nanoseconds)); }
  int rank() const { return transport_.rank(); }

  Transport& transport_;
  Backend& backend_;
  Bytes largest_;
};

}  // namespace

RankGrid grid_of(std::span<const std::string> hosts) {
  std::vector<int> ranks;  // of each box
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (i > 0 && hosts[i] == hosts[i - 1]) {
      ++ranks.back();
      continue;
    }
    if (std::ranges::find(hosts.first(i), hosts[i]) != hosts.begin() + static_cast<long>(i)) {
      throw Error(ErrorKind::execution,
                  concat("rank ", i, " is on ", hosts[i], ", as an earlier one is, but rank ",
                         i - 1, " is on ", hosts[i - 1],
                         "; start the ranks of a host one after the other (mpirun --map-by slot)"));
    }
    ranks.push_back(1);
  }
  const int most = std::ranges::max(ranks);
  const auto other = std::ranges::find_if(ranks, [&](int count) { return count != most; });
  if (other != ranks.end()) {
    const auto first = std::accumulate(ranks.begin(), other, 0);
    throw Error(ErrorKind::execution,
                concat(hosts[static_cast<std::size_t>(first)], " has ", *other,
                       *other == 1 ? " rank" : " ranks", ", and another host has ", most,
                       "; start equally many on every host"));
  }
  return {.boxes = static_cast<int>(ranks.size()), .ranks_of_box = most};
}

Link link_of(const MeasuredLevel& level) {
  const auto n = static_cast<double>(level.count);
  const auto sums = static_cast<double>(level.sum.bandwidth.bytes_per_second);
  return {.latency = level.message.latency,
          .point_to_point = level.message.bandwidth,
          .collective = {std::llround(2 * (n - 1) / n * sums)}};
}

std::vector<MeasuredLevel> measure_links(
    const RankGrid& grid,
    const std::function<std::vector<std::unique_ptr<Transport>>(const Wiring&)>& make,
    const std::function<std::unique_ptr<Backend>(int rank)>& make_backend, Bytes largest) {
  if (grid.ranks() < 2) fail("links join two ranks at least, and there is one");
  const std::vector<ConnectedLevel> levels = levels_of(grid);
  const auto transports = make(wiring_of(grid, levels));
  const int first = transports.empty() ? 0 : transports.front()->rank();
  std::vector<MeasuredLevel> measured;
  const auto measure = [&](int rank, int) {
    const auto backend = make_backend(rank);
    Measurement measurement(*transports[static_cast<std::size_t>(rank - first)], *backend, largest);
    for (const ConnectedLevel& level : levels) {
      MeasuredLevel of_rank = measurement.level(level);
      if (rank == 0) measured.push_back(std::move(of_rank));
    }
  };
  run_ranks(transports, 1,
            {.prepare = [](int) {},
             .step = measure,
             .report = [](int, int) { return std::string(); },
             .after_step = [](int, std::span<const std::string>) { return false; },
             .settle = {},
             .finish = [](int) {},
             .describe_failure = [](int rank) { return concat("rank ", rank, " failed"); }});
  return measured;
}

Cluster measured_cluster(const DeviceKind& kind, std::span<const MeasuredLevel> levels) {
  Cluster cluster{
      .name = "measured", .kinds = {kind}, .devices = {}, .levels = {}, .overrides = {}};
  std::size_t devices = 1;
  for (const MeasuredLevel& level : levels) {
    cluster.levels.push_back({.count = level.count, .link = link_of(level), .rails = level.rails});
    devices *= static_cast<std::size_t>(level.count);
  }
  cluster.devices.assign(devices, 0);
  return cluster;
}

}  // namespace stagecraft
