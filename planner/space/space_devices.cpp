// The devices of a space: usable devices, their groups and blocks, and their links.

#include <algorithm>
#include <numeric>

#include "planner/space/space.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

/// Marks the first devices that are not excluded as usable.
void Space::choose_devices() {
  const int all = device_count(cluster_);
  is_whole_ = problem_.excluded.empty();
  usable_.assign(static_cast<std::size_t>(all), true);
  for (const int device : problem_.excluded) {
    if (device < 0 || device >= all) {
      fail_usage("device ", device, " is to be excluded, but the cluster has ", all);
    }
    usable_[static_cast<std::size_t>(device)] = false;
  }
  const int most = problem_.devices.value_or(all);
  for (std::size_t device = 0; device < usable_.size(); ++device) {
    usable_[device] = usable_[device] && devices_ < most;
    if (!usable_[device]) continue;
    ++devices_;
    const int kind = cluster_.devices[device];
    if (std::find(kinds_.begin(), kinds_.end(), kind) == kinds_.end()) kinds_.push_back(kind);
  }
  if (devices_ < 1) {
    fail_usage("a plan needs at least one device",
               is_whole_ ? "" : ", and all of them are excluded");
  }
  if (!cluster_.levels.empty()) width_ = cluster_.levels.back().count;
  constexpr int usual_degrees = 8;
  groups_.push_back(0);
  for (int degree = 1; degree <= usual_degrees; ++degree) groups_.push_back(count_groups(degree));
}

const std::vector<int>& Space::blocks(int size) const {
  const auto known = blocks_.find(size);
  if (known != blocks_.end()) return known->second;
  std::vector<int> devices, here;
  const int unit = std::max(width_, size);
  const int all = device_count(cluster_);
  for (int first = 0; first < all; first += unit) {
    here.clear();
    for (int device = first; device < std::min(first + unit, all); ++device) {
      if (usable_[static_cast<std::size_t>(device)]) here.push_back(device);
    }
    const auto whole = static_cast<std::ptrdiff_t>(here.size()) / size * size;
    devices.insert(devices.end(), here.begin(), here.begin() + whole);
  }
  return blocks_.emplace(size, std::move(devices)).first->second;
}

int Space::count_groups(int degree) const {
  if (!is_whole_) return static_cast<int>(blocks(degree).size()) / degree;
  if (degree > width_) return devices_ / degree;
  return devices_ / width_ * (width_ / degree) + devices_ % width_ / degree;
}

int Space::lead_of(const Setting& setting, int group) const {
  const int degree = setting.peers;
  if (!is_whole_) {
    const int place = group * degree;
    return blocks(degree * setting.columns)[static_cast<std::size_t>(place)];
  }
  if (degree > width_) return group * degree;
  const int per_width = width_ / degree;
  return group / per_width * width_ + group % per_width * degree;
}

std::vector<int> Space::peers(const Setting& setting, int group) const {
  const int degree = setting.peers;
  std::vector<int> devices(static_cast<std::size_t>(degree));
  if (is_whole_) {
    std::iota(devices.begin(), devices.end(), lead_of(setting, group));
  } else {
    const std::ptrdiff_t place = std::ptrdiff_t{group} * degree;
    const auto first = blocks(degree * setting.columns).begin() + place;
    std::copy(first, first + degree, devices.begin());
  }
  return devices;
}

int Space::devices_up_to(const Setting& setting, int groups) const {
  const int last = peers(setting, groups - 1).back();
  return static_cast<int>(std::count(usable_.begin(), usable_.begin() + last + 1, true));
}

bool Space::has_usable_devices(const Plan& plan) const {
  const std::vector<int> devices = used_devices(plan);
  return std::all_of(devices.begin(), devices.end(),
                     [&](int device) { return usable_[static_cast<std::size_t>(device)]; });
}

/// Whether the devices can form groups of these degrees, each of one kind: within the innermost
/// links, or of several whole parts that these join, each part with whole sets of tensor-parallel
/// peers.
bool Space::has_groups(int tensor, int context) const {
  const int degree = tensor * context;
  const bool fills_parts = width_ % tensor == 0 && degree % width_ == 0;
  if ((degree > width_ && !fills_parts) || groups(degree) == 0) return false;
  if (kinds_.size() == 1) return true;
  const Setting setting{.peers = degree};
  for (int group = 0; group < groups(degree); ++group) {
    const std::vector<int> devices = peers(setting, group);
    const int kind = cluster_.devices[static_cast<std::size_t>(devices.front())];
    for (const int device : devices) {
      if (cluster_.devices[static_cast<std::size_t>(device)] != kind) return false;
    }
  }
  return true;
}

const DeviceKind& Space::kind(const Setting& setting, int device) const {
  // With one kind, the answer does not depend on the device
  // (planner/search/enumerate/mixed_search.cpp passes any number).
  if (kinds_.size() == 1) return cluster_.kinds[static_cast<std::size_t>(kinds_.front())];
  return kind_of(cluster_, lead(setting, device));
}

std::vector<int> Space::one_of_each_kind(const Setting& setting) const {
  std::vector<int> found{0};
  for (int device = 1; device < devices(setting) && found.size() < kinds_.size(); ++device) {
    const bool is_new = std::ranges::none_of(
        found, [&](int other) { return &kind(setting, other) == &kind(setting, device); });
    if (is_new) found.push_back(device);
  }
  return found;
}

Link Space::message_link(const Setting& setting, int from, int to) const {
  return stagecraft::message_link(problem_.profile, cluster_, lead(setting, from),
                                  lead(setting, to));
}

std::vector<std::vector<int>> Space::replicas_on(const Setting& setting,
                                                 const std::vector<int>& devices) const {
  std::vector<std::vector<int>> replicas;
  for (const int device : devices) {
    for (int column = 0; column < setting.columns; ++column)
      replicas.push_back(peers(setting, device * setting.columns + column));
  }
  return replicas;
}

std::vector<int> Space::members(const Setting& setting, const std::vector<int>& devices) const {
  return holding_devices(parallelism(setting), replicas_on(setting, devices));
}

DeviceGroup Space::group(const Setting& setting, const std::vector<int>& devices) const {
  return device_group(cluster_, members(setting, devices));
}

const StageGroups& Space::groups(const Setting& setting, const std::vector<int>& devices) const {
  std::tuple key(setting.choice, setting.peers, setting.columns, devices);
  const auto known = stage_groups_.find(key);
  if (known != stage_groups_.end()) return known->second;
  return stage_groups_
      .emplace(std::move(key),
               stage_groups(cluster_, parallelism(setting), replicas_on(setting, devices)))
      .first->second;
}

/// The replicas of a stage on `count` devices from `first` on, column by column; each device holds
/// one replica of every column.
std::vector<std::vector<int>> Space::place(const Setting& setting, int first, int count) const {
  std::vector<std::vector<int>> replicas;
  for (int i = 0; i < count * setting.columns; ++i) {
    const int column = i / count, replica = i % count;
    replicas.push_back(peers(setting, (first + replica) * setting.columns + column));
  }
  return replicas;
}

}  // namespace stagecraft
