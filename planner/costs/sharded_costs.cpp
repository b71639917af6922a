#include "planner/costs/sharded_costs.hpp"

#include <algorithm>

namespace stagecraft {

Duration one_after_another(Collective collective, const StageGroups& groups,
                           const WithExperts<Bytes>& bytes) {
  const Duration dense = collective_time(collective, groups.all, bytes.all - bytes.experts);
  if (bytes.experts == 0) return dense;
  return dense + collective_time(collective, groups.experts, bytes.experts);
}

LayerCost with_shards(LayerCost cost, Sharding sharding, const StageGroups& groups) {
  if (!shards_gradients(sharding) || groups.all.members == 1 || cost.parameters == 0) return cost;
  const Bytes parameters = cost.parameters;
  const WithExperts<Bytes> gradients = expert_part(cost, cost.gradients);
  Duration messages = one_after_another(Collective::reduce_scatter, groups, gradients);
  cost.workspace += parameters;
  if (sharding == Sharding::zero3) {
    const Duration gather =
        one_after_another(Collective::all_gather, groups, expert_part(cost, parameters));
    messages += gather;
    cost.forward = std::max(cost.forward, gather);
    cost.workspace += 2 * parameters;
  }
  cost.backward_weight += std::max(messages - cost.backward(), Duration{0});
  return cost;
}

}  // namespace stagecraft
