// A memo of estimated layer costs, shared by all cost books of a search: searches over shardings,
// schedules and degrees, on all threads, need the same costs repeatedly.

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
  /// For a profile without entries, since measured costs need no memo.
  LayerCostMemo(const Profile& profile, const Cluster& cluster);

  /// Whether the memo is for this profile and this cluster, apart from memory sizes.
  bool is_of(const Profile& profile, const Cluster& cluster) const;

  /// The costs for the cluster's device kind with this index. Calls `find`, which may throw, if
  /// they are not known yet.
  std::vector<LayerCost> costs(int kind, const CostSetting& setting,
                               const std::function<std::vector<LayerCost>()>& find);

 private:
  using Key = std::tuple<int, std::int64_t, std::int64_t, int, Precision, LayerKernels, bool, int,
                         int, int, double, int, std::int64_t>;
  static Key key_of(int kind, const CostSetting& setting);
  /// Run-length encoding: costs, and the number of consecutive layers with these costs.
  using Runs = std::vector<std::pair<LayerCost, int>>;

  Model model_;
  Cluster cluster_;
  std::mutex mutex_;
  std::map<Key, Runs> known_;
};

}  // namespace stagecraft
