#include "planner/costs/layer_cost_memo.hpp"

namespace stagecraft {

namespace {

/// What layers take does not depend on how much devices hold.
Cluster without_memory(Cluster cluster) {
  for (DeviceKind& kind : cluster.kinds) {
    kind.memory = kind.reserve = 0;
    kind.memory_unlimited = false;
  }
  return cluster;
}

}  // namespace

LayerCostMemo::LayerCostMemo(const Profile& profile, const Cluster& cluster)
    : model_(profile.model), cluster_(without_memory(cluster)) {}

bool LayerCostMemo::is_of(const Profile& profile, const Cluster& cluster) const {
  return profile.entries.empty() && profile.model == model_ && without_memory(cluster) == cluster_;
}

LayerCostMemo::Key LayerCostMemo::key_of(int kind, const CostSetting& setting) {
  const Parallelism& parallelism = setting.parallelism;
  return {kind,
          setting.microbatch,
          setting.sequence,
          setting.tensor_parallel,
          setting.precision,
          setting.kernels,
          parallelism.sequence,
          parallelism.context,
          parallelism.expert,
          parallelism.expert_tensor,
          parallelism.expert_load,
          parallelism.expert_nodes,
          setting.chunk};
}

std::vector<LayerCost> LayerCostMemo::costs(int kind, const CostSetting& setting,
                                            const std::function<std::vector<LayerCost>()>& find) {
  const Key key = key_of(kind, setting);
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(key);
    if (known != known_.end()) {
      std::vector<LayerCost> costs;
      for (const auto& [cost, layers] : known->second)
        costs.insert(costs.end(), static_cast<std::size_t>(layers), cost);
      return costs;
    }
  }
  std::vector<LayerCost> costs = find();
  Runs runs;
  for (const LayerCost& cost : costs) {
    if (runs.empty() || runs.back().first != cost) runs.emplace_back(cost, 0);
    ++runs.back().second;
  }
  const std::lock_guard lock(mutex_);
  known_.try_emplace(key, std::move(runs));
  return costs;
}

}  // namespace stagecraft
