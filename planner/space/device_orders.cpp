#include "planner/space/device_orders.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace stagecraft {

namespace {

/// The kinds of the devices of one part.
using Make = std::vector<int>;

std::vector<Make> makes_of(const Cluster& cluster) {
  const auto parts = static_cast<std::size_t>(cluster.levels.front().count);
  const auto size = static_cast<std::ptrdiff_t>(cluster.devices.size() / parts);
  std::vector<Make> makes;
  for (auto part = cluster.devices.begin(); part != cluster.devices.end(); part += size)
    makes.emplace_back(part, part + size);
  return makes;
}

/// Maximum number of orders to enumerate.
constexpr double most_renumberings = 50'000;

/// Number of permutations of the parts of all levels.
double count_renumberings(const Cluster& cluster) {
  double all = 1, parts = 1;
  for (const Level& level : cluster.levels) {
    all *= std::pow(std::tgamma(level.count + 1.0), parts);
    parts *= level.count;
  }
  return all;
}

/// All permutations of a part made of the levels from this one on, in lexicographical order.
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

/// How two devices are joined: the level at which their positions differ, and the number of the
/// link override, from 1 on; 0 for none.
using Joint = std::pair<int, std::size_t>;

/// The properties in which orders of a cluster differ.
class Looks {
 public:
  explicit Looks(const Cluster& cluster) : cluster_(cluster) {
    for (const LinkOverride& entry : cluster.overrides) {
      const auto found = std::find(known_.begin(), known_.end(), entry.link);
      own_[{entry.from, entry.to}] = static_cast<std::size_t>(found - known_.begin()) + 1;
      if (found == known_.end()) known_.push_back(entry.link);
    }
  }

  int kind(int device) const { return cluster_.devices[static_cast<std::size_t>(device)]; }

  Joint joint(int from, int to) const {
    const int a = position_of(cluster_, from), b = position_of(cluster_, to);
    const auto own = own_.find({a, b});
    return {level_between(a, b), own == own_.end() ? 0 : own->second};
  }

  /// The kinds in this order, and the links of each device to those before it, in both directions.
  std::vector<int> look(const std::vector<int>& order) const {
    std::vector<int> look;
    for (std::size_t i = 0; i < order.size(); ++i) {
      look.push_back(kind(order[i]));
      for (std::size_t j = 0; j < i; ++j) {
        const auto [level, to] = joint(order[i], order[j]);
        const std::size_t fro = joint(order[j], order[i]).second;
        look.insert(look.end(), {level, static_cast<int>(to), static_cast<int>(fro)});
      }
    }
    return look;
  }

  /// Whether exchanging the two devices leaves kinds and links of all `devices` unchanged.
  bool are_alike(int a, int b, const std::vector<int>& devices) const {
    if (kind(a) != kind(b) || joint(a, b) != joint(b, a)) return false;
    return std::ranges::all_of(devices, [&](int other) {
      return other == a || other == b ||
             (joint(a, other) == joint(b, other) && joint(other, a) == joint(other, b));
    });
  }

 private:
  int level_between(int from, int to) const {
    int inside = device_count(cluster_), at = 0;
    for (const Level& level : cluster_.levels) {
      inside /= level.count;
      if (from / inside != to / inside) return at;
      ++at;
    }
    return at;
  }

  const Cluster& cluster_;
  std::vector<Link> known_;
  std::map<std::pair<int, int>, std::size_t> own_;
};

/// Enumerates orders of these devices, one of each look, up to a maximum number.
class EveryOrder {
 public:
  EveryOrder(const Cluster& cluster, std::vector<int> devices, std::size_t most)
      : looks_(cluster), devices_(std::move(devices)), most_(most), used_(devices_.size()) {}

  /// The orders, of which the first is that of the devices' numbers; nothing if there are too many.
  std::optional<std::vector<std::vector<int>>> find() {
    extend();
    if (orders_.size() > most_) return {};
    return std::move(orders_);
  }

 private:
  void extend() {
    if (order_.size() == devices_.size()) {
      if (known_.insert(looks_.look(order_)).second) orders_.push_back(order_);
      return;
    }
    for (std::size_t next = 0; next < devices_.size(); ++next) {
      if (orders_.size() > most_) return;
      if (used_[next] || has_stand_in(next)) continue;
      used_[next] = true;
      order_.push_back(devices_[next]);
      extend();
      order_.pop_back();
      used_[next] = false;
    }
  }

  /// Whether an equivalent device with a smaller number is left, so that this one need not be
  /// tried.
  bool has_stand_in(std::size_t next) const {
    for (std::size_t other = 0; other < next; ++other) {
      if (!used_[other] && looks_.are_alike(devices_[other], devices_[next], devices_)) return true;
    }
    return false;
  }

  Looks looks_;
  std::vector<int> devices_;
  std::size_t most_;
  std::vector<bool> used_;
  std::vector<int> order_;
  std::set<std::vector<int>> known_;
  std::vector<std::vector<int>> orders_;
};

/// Whether all of these devices have equal links and are of one kind.
bool are_interchangeable(const Cluster& cluster, const std::vector<int>& devices) {
  if (!cluster.overrides.empty()) return false;
  const Looks looks(cluster);
  // Positions ascend, so the levels between any two devices are levels between some neighbours.
  std::set<int> levels;
  for (std::size_t i = 1; i < devices.size(); ++i) {
    if (looks.kind(devices[i]) != looks.kind(devices[0])) return false;
    levels.insert(looks.joint(devices[i - 1], devices[i]).first);
  }
  return levels.size() <= 1;
}

std::vector<int> devices_of(const std::vector<std::size_t>& parts, std::size_t size) {
  std::vector<int> devices;
  for (const std::size_t part : parts) {
    for (std::size_t i = 0; i < size; ++i) devices.push_back(static_cast<int>(part * size + i));
  }
  return devices;
}

/// Whether parts of every level stay together, so that all links are unchanged.
bool keeps_parts(const std::vector<Level>& levels, const std::vector<int>& order) {
  auto inside = static_cast<int>(order.size());
  for (const Level& level : levels) {
    inside /= level.count;
    for (std::size_t place = 1; place < order.size(); ++place) {
      const bool begins = static_cast<int>(place) % inside == 0;
      if (!begins && order[place] / inside != order[place - 1] / inside) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<int> devices_in_use(const Problem& problem) {
  std::vector<int> devices;
  const int most = problem.devices.value_or(device_count(problem.cluster));
  for (int device = 0; device < device_count(problem.cluster); ++device) {
    const bool is_excluded = std::ranges::find(problem.excluded, device) != problem.excluded.end();
    if (!is_excluded && std::ssize(devices) < most) devices.push_back(device);
  }
  return devices;
}

std::vector<int> devices_other_than(const std::vector<int>& these, const Cluster& cluster) {
  std::vector<int> others;
  for (int device = 0; device < device_count(cluster); ++device) {
    if (std::ranges::find(these, device) == these.end()) others.push_back(device);
  }
  return others;
}

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
  const Looks looks(cluster);
  std::vector<std::vector<int>> orders = renumberings(cluster.levels, 0);
  std::set<std::vector<int>> known{looks.look(orders.front())};
  std::vector<std::vector<int>> others;
  for (std::vector<int>& order : orders) {
    if (!known.insert(looks.look(order)).second) continue;
    if (others.size() == most) return {};
    others.push_back(std::move(order));
  }
  return others;
}

std::optional<std::vector<std::vector<int>>> every_other_device_order(
    const Cluster& cluster, const std::vector<int>& excluded, std::size_t most) {
  constexpr int most_devices_ordered = 8;
  std::vector<int> devices(cluster.devices.size()), last = excluded;
  std::iota(devices.begin(), devices.end(), 0);
  std::sort(last.begin(), last.end());
  last.erase(std::unique(last.begin(), last.end()), last.end());
  std::erase_if(devices, [&](int device) { return std::ranges::binary_search(last, device); });
  if (std::ssize(devices) > most_devices_ordered) return {};
  auto orders = EveryOrder(cluster, std::move(devices), most + 1).find();
  if (!orders) return {};
  orders->erase(orders->begin());  // the devices' own order
  for (std::vector<int>& order : *orders) order.insert(order.end(), last.begin(), last.end());
  return orders;
}

std::optional<std::vector<std::vector<int>>> every_set_of(
    const Cluster& cluster, const std::vector<std::vector<int>>& groups, std::size_t most) {
  if (groups.size() > most_groups_of_sets) return {};
  const Looks looks(cluster);
  std::set<std::vector<int>> known;
  std::vector<std::vector<int>> sets;
  for (unsigned chosen = 1; chosen < 1U << groups.size(); ++chosen) {
    std::vector<int> set, devices;
    for (std::size_t group = 0; group < groups.size(); ++group) {
      if ((chosen >> group & 1U) == 0) continue;
      set.push_back(static_cast<int>(group));
      devices.insert(devices.end(), groups[group].begin(), groups[group].end());
    }
    if (!known.insert(looks.look(devices)).second) continue;
    if (sets.size() == most) return {};
    sets.push_back(std::move(set));
  }
  std::stable_sort(sets.begin(), sets.end(),
                   [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return sets;
}

namespace {

/// All orders that keep parts together, for a cluster with link overrides; nothing if there are too
/// many.
std::optional<std::vector<std::vector<int>>> orders_of_links(const Problem& problem) {
  constexpr std::size_t most = 11;
  if (problem.devices || !problem.excluded.empty()) return {};
  return all_other_device_orders(problem.cluster, most);
}

/// Whether every replica is one device. In an order that does not keep nodes together, the devices
/// of a larger replica could be separated.
bool has_single_devices(const Problem& problem) {
  return problem.parallelism == Parallelism{} && problem.other_parallelism.empty() &&
         std::ranges::all_of(problem.tensor_parallel, [](int degree) { return degree == 1; });
}

std::optional<std::vector<std::vector<int>>> every_order(const Problem& problem) {
  constexpr std::size_t most = 23;  // all other orders of four devices
  if (problem.devices || !has_single_devices(problem)) return {};
  return every_other_device_order(problem.cluster, problem.excluded, most);
}

}  // namespace

DeviceOrders asked_device_orders(const Problem& problem) {
  constexpr std::size_t most = 5;
  // The framework numbers its ranks in the cluster's order.
  if (numbers_ranks(problem)) return {{}, true};
  if (are_interchangeable(problem.cluster, devices_in_use(problem))) return {{}, true};
  if (problem.devices) return {};
  if (auto every = every_order(problem)) return {*std::move(every), true};
  if (problem.cluster.overrides.empty()) return {other_device_orders(problem.cluster, most), false};
  auto orders = orders_of_links(problem);
  if (!orders) return {};
  // On a flat cluster, these are all orders.
  const bool is_flat = std::ranges::count_if(problem.cluster.levels, [](const Level& level) {
                         return level.count > 1;
                       }) <= 1;
  return {*std::move(orders), is_flat};
}

bool needs_placement(const Problem& problem) {
  if (numbers_ranks(problem)) return false;
  return !problem.cluster.overrides.empty() && !every_order(problem) && !orders_of_links(problem);
}

Cluster in_device_order(const Cluster& cluster, const std::vector<int>& order) {
  Cluster ordered = cluster;
  for (std::size_t place = 0; place < order.size(); ++place)
    ordered.devices[place] = cluster.devices[static_cast<std::size_t>(order[place])];
  ordered.positions = positions_of(cluster, order);
  // The links are unchanged: the same cluster with other device numbers.
  if (cluster.overrides.empty() && keeps_parts(cluster.levels, ordered.positions))
    ordered.positions.clear();
  return ordered;
}

Problem in_device_order(Problem problem, const std::vector<int>& order) {
  problem.cluster = in_device_order(problem.cluster, order);
  std::vector<int> places(order.size());
  for (std::size_t place = 0; place < order.size(); ++place)
    places[static_cast<std::size_t>(order[place])] = static_cast<int>(place);
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
