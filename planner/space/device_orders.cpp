#include "planner/space/device_orders.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

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

/// More are not gone through.
constexpr double most_renumberings = 50'000;

/// In how many ways the parts of every level can change places.
double count_renumberings(const Cluster& cluster) {
  double all = 1, parts = 1;
  for (const Level& level : cluster.levels) {
    all *= std::pow(std::tgamma(level.count + 1.0), parts);
    parts *= level.count;
  }
  return all;
}

/// All of them, of a part that the levels from this one on make up, in lexicographical order.
std::vector<std::vector<int>> renumberings(const std::vector<Level>& levels,
                                           std::size_t outermost) {
  if (outermost == levels.size()) return {{0}};
  const std::vector<std::vector<int>> inside = renumberings(levels, outermost + 1);
  const auto count = static_cast<std::size_t>(levels[outermost].count);
  const int size = static_cast<int>(inside.front().size());
  std::vector<int> parts(count);
  std::iota(parts.begin(), parts.end(), 0);
  std::vector<std::vector<int>> all;
  do {
    std::vector<std::vector<int>> made{{}};
    for (const int part : parts) {
      std::vector<std::vector<int>> longer;
      for (const std::vector<int>& order : made) {
        for (const std::vector<int>& within : inside) {
          longer.push_back(order);
          for (const int device : within) longer.back().push_back(part * size + device);
        }
      }
      made = std::move(longer);
    }
    all.insert(all.end(), made.begin(), made.end());
  } while (std::next_permutation(parts.begin(), parts.end()));
  return all;
}

/// What tells two numberings of a cluster apart: kinds, and links that are not the levels'.
using Look = std::pair<std::vector<int>, std::vector<std::tuple<int, int, std::size_t>>>;

/// Equal links by one number.
std::vector<std::size_t> link_names(const Cluster& cluster) {
  std::vector<Link> known;
  std::vector<std::size_t> names;
  for (const LinkOverride& entry : cluster.overrides) {
    const auto found = std::find(known.begin(), known.end(), entry.link);
    names.push_back(static_cast<std::size_t>(found - known.begin()));
    if (found == known.end()) known.push_back(entry.link);
  }
  return names;
}

Look look_of(const Cluster& cluster, const std::vector<std::size_t>& names) {
  Look look{cluster.devices, {}};
  for (std::size_t i = 0; i < names.size(); ++i)
    look.second.emplace_back(cluster.overrides[i].from, cluster.overrides[i].to, names[i]);
  std::sort(look.second.begin(), look.second.end());
  return look;
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

std::optional<std::vector<std::vector<int>>> all_other_device_orders(const Cluster& cluster,
                                                                     std::size_t most) {
  if (count_renumberings(cluster) > most_renumberings) return {};
  const std::vector<std::size_t> names = link_names(cluster);
  std::set<Look> known{look_of(cluster, names)};
  std::vector<std::vector<int>> orders;
  for (std::vector<int>& order : renumberings(cluster.levels, 0)) {
    if (!known.insert(look_of(in_device_order(cluster, order), names)).second) continue;
    if (orders.size() == most) return {};
    orders.push_back(std::move(order));
  }
  return orders;
}

namespace {

/// All of them, where links of their own tell devices apart; nothing where they are too many.
std::optional<std::vector<std::vector<int>>> orders_of_links(const Problem& problem) {
  constexpr std::size_t most = 11;
  if (problem.devices || !problem.excluded.empty()) return {};
  return all_other_device_orders(problem.cluster, most);
}

}  // namespace

std::vector<std::vector<int>> asked_device_orders(const Problem& problem) {
  constexpr std::size_t most = 5;
  if (problem.devices) return {};
  if (problem.cluster.overrides.empty()) return other_device_orders(problem.cluster, most);
  return orders_of_links(problem).value_or(std::vector<std::vector<int>>{});
}

bool needs_placement(const Problem& problem) {
  return !problem.cluster.overrides.empty() && !orders_of_links(problem);
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
