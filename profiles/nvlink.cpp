#include "profiles/nvlink.hpp"

#include <algorithm>
#include <cassert>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Packs cycles into links, each time all ways around over the devices from the first one.
class Packing {
 public:
  Packing(const NvlinkMatrix& links, std::vector<int> devices)
      : links_(links), devices_(std::move(devices)) {}

  int most_cycles() {
    std::vector<int> order(devices_.begin() + 1, devices_.end());
    std::sort(order.begin(), order.end());
    do {
      // Each cycle once: the other way around it is the same.
      if (order.front() < order.back() && fits(order)) cycles_.push_back(order);
    } while (std::next_permutation(order.begin(), order.end()));
    pack(0, 0);
    return best_;
  }

 private:
  bool fits(const std::vector<int>& order) const {
    int before = devices_.front();
    for (const int device : order) {
      if (links_[index(before)][index(device)] < 1) return false;
      before = device;
    }
    return links_[index(before)][index(devices_.front())] > 0;
  }

  void use(const std::vector<int>& order, int change) {
    int before = devices_.front();
    const auto take = [&](int a, int b) {
      links_[index(a)][index(b)] -= change;
      links_[index(b)][index(a)] -= change;
    };
    for (const int device : order) {
      take(before, device);
      before = device;
    }
    take(before, devices_.front());
  }

  /// Half of the fewest links that a device has left.
  int room() const {
    int room = 1 << 20;
    for (const int a : devices_) {
      int left = 0;
      for (const int b : devices_) left += links_[index(a)][index(b)];
      room = std::min(room, left / 2);
    }
    return room;
  }

  void pack(std::size_t from, int packed) {
    best_ = std::max(best_, packed);
    if (packed + room() <= best_) return;
    for (std::size_t i = from; i < cycles_.size(); ++i) {
      if (!fits(cycles_[i])) continue;
      use(cycles_[i], 1);
      pack(i, packed + 1);
      use(cycles_[i], -1);
    }
  }

  NvlinkMatrix links_;
  std::vector<int> devices_;
  std::vector<std::vector<int>> cycles_;
  int best_ = 0;
};

bool are_connected(const NvlinkMatrix& links, const std::vector<int>& devices) {
  std::vector<int> found{devices.front()};
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const int other : devices) {
      const bool known = std::find(found.begin(), found.end(), other) != found.end();
      if (!known && links[index(found[i])][index(other)] > 0) found.push_back(other);
    }
  }
  return found.size() == devices.size();
}

}  // namespace

NvlinkMatrix hybrid_cube_mesh() {
  NvlinkMatrix links(8, std::vector<int>(8, 0));
  const auto join = [&](int a, int b, int count) {
    links[index(a)][index(b)] = links[index(b)][index(a)] = count;
  };
  for (const int cube : {0, 4}) {
    join(cube, cube + 1, 1);
    join(cube, cube + 2, 1);
    join(cube, cube + 3, 2);
    join(cube + 1, cube + 2, 2);
    join(cube + 1, cube + 3, 1);
    join(cube + 2, cube + 3, 2);
  }
  join(0, 4, 2);
  join(1, 5, 2);
  join(2, 6, 1);
  join(3, 7, 1);
  return links;
}

int nvlink_rings(const NvlinkMatrix& links, const std::vector<int>& devices) {
  assert(devices.size() >= 2 && devices.size() <= 8);
  if (devices.size() == 2) return links[index(devices[0])][index(devices[1])];
  return 2 * Packing(links, devices).most_cycles();
}

double nvlink_bus_links(const NvlinkMatrix& links, const std::vector<int>& devices) {
  const int rings = nvlink_rings(links, devices);
  if (rings > 0) return rings;
  if (!are_connected(links, devices)) return 0;
  const auto members = static_cast<double>(devices.size());
  return 2 * (members - 1) / members;
}

}  // namespace stagecraft
