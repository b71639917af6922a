#include "planner/device_orders.hpp"

#include <algorithm>
#include <numeric>

namespace stagecraft {

namespace {

/// Kinds of the devices of one part.
using Make = std::vector<int>;

std::vector<Make> makes_of(const Cluster& cluster) {
  const auto parts = static_cast<std::size_t>(cluster.levels.front().count);
  const auto size = static_cast<std::ptrdiff_t>(cluster.devices.size() / parts);
  std::vector<Make> makes;
  for (auto part = cluster.devices.begin(); part != cluster.devices.end(); part += size)
    makes.emplace_back(part, part + size);
  return makes;
}

std::vector<int> devices_of(const std::vector<std::size_t>& parts, std::size_t size) {
  std::vector<int> devices;
  for (const std::size_t part : parts) {
    for (std::size_t i = 0; i < size; ++i) devices.push_back(static_cast<int>(part * size + i));
  }
  return devices;
}

/// Where each device is.
std::vector<int> places_in(const std::vector<int>& order) {
  std::vector<int> places(order.size());
  for (std::size_t place = 0; place < order.size(); ++place)
    places[static_cast<std::size_t>(order[place])] = static_cast<int>(place);
  return places;
}

}  // namespace

std::vector<std::vector<int>> other_device_orders(const Cluster& cluster, std::size_t most) {
  constexpr std::size_t most_makes = 6;
  if (cluster.levels.empty()) return {};
  const std::vector<Make> makes = makes_of(cluster);
  std::vector<Make> known;
  for (const Make& make : makes) {
    if (std::find(known.begin(), known.end(), make) == known.end()) known.push_back(make);
  }
  if (known.size() == 1 || known.size() > most_makes) return {};
  std::vector<std::vector<int>> orders;
  std::vector<std::size_t> turn(known.size());
  std::iota(turn.begin(), turn.end(), std::size_t{0});
  do {
    std::vector<std::size_t> parts;
    for (const std::size_t make : turn) {
      for (std::size_t part = 0; part < makes.size(); ++part) {
        if (makes[part] == known[make]) parts.push_back(part);
      }
    }
    if (std::is_sorted(parts.begin(), parts.end())) continue;
    if (orders.size() == most) break;
    orders.push_back(devices_of(parts, cluster.devices.size() / makes.size()));
  } while (std::next_permutation(turn.begin(), turn.end()));
  return orders;
}

std::vector<std::vector<int>> asked_device_orders(const Problem& problem) {
  constexpr std::size_t most = 5;
  if (problem.devices) return {};
  return other_device_orders(problem.cluster, most);
}

Cluster in_device_order(const Cluster& cluster, const std::vector<int>& order) {
  Cluster ordered = cluster;
  for (std::size_t place = 0; place < order.size(); ++place)
    ordered.devices[place] = cluster.devices[static_cast<std::size_t>(order[place])];
  const std::vector<int> places = places_in(order);
  for (LinkOverride& entry : ordered.overrides) {
    entry.from = places[static_cast<std::size_t>(entry.from)];
    entry.to = places[static_cast<std::size_t>(entry.to)];
  }
  return ordered;
}

Problem in_device_order(Problem problem, const std::vector<int>& order) {
  problem.cluster = in_device_order(problem.cluster, order);
  const std::vector<int> places = places_in(order);
  for (int& device : problem.excluded) device = places[static_cast<std::size_t>(device)];
  std::sort(problem.excluded.begin(), problem.excluded.end());
  return problem;
}

Plan renumbered(Plan plan, const std::vector<int>& numbers) {
  for (Stage& stage : plan.stages) {
    for (auto& peers : stage.devices) {
      for (int& device : peers) device = numbers[static_cast<std::size_t>(device)];
    }
  }
  return plan;
}

}  // namespace stagecraft
