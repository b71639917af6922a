// Layers' estimated costs that one search has found, for all its cost books: searches of other
// shardings, schedules and degrees, on any thread, ask for the same again and again.

#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "profiles/cluster.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

class LayerCostMemo {
 public:
  /// Of a profile without entries: what was measured is found in no time.
  LayerCostMemo(const Profile& profile, const Cluster& cluster);

  /// Whether these are its profile and its cluster, but for memory.
  bool is_of(const Profile& profile, const Cluster& cluster) const;

  /// A kind of device is the cluster's, by its index. `find` is called where the costs are not
  /// known yet, and may throw.
  std::vector<LayerCost> costs(int kind, const CostSetting& setting,
                               const std::function<std::vector<LayerCost>()>& find);

 private:
  using Key = std::tuple<int, std::int64_t, std::int64_t, int, Precision, LayerKernels, bool, int,
                         int, int, double, int, std::int64_t>;
  static Key key_of(int kind, const CostSetting& setting);
  /// Costs that so many layers in a row have.
  using Runs = std::vector<std::pair<LayerCost, int>>;

  Model model_;
  Cluster cluster_;
  std::mutex mutex_;
  std::map<Key, Runs> known_;
};

}  // namespace stagecraft
