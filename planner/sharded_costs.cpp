#include "planner/sharded_costs.hpp"

#include <algorithm>

namespace stagecraft {

namespace {

/// One gather or scatter of what is dense, and one of what experts have.
Duration shards_time(const Link& link, const Holders& holders, const WithExperts<Bytes>& bytes) {
  const Duration dense = reduce_scatter_time(link, holders.all, bytes.all - bytes.experts);
  if (bytes.experts == 0) return dense;
  return dense + reduce_scatter_time(link, holders.experts, bytes.experts);
}

}  // namespace

LayerCost with_shards(LayerCost cost, Sharding sharding, const Link& link, const Holders& holders) {
  if (!shards_gradients(sharding) || holders.all == 1 || cost.parameters == 0) return cost;
  const Bytes parameters = cost.parameters;
  const WithExperts<Bytes> gradients = expert_part(cost, cost.gradients);
  Duration messages = shards_time(link, holders, gradients);
  cost.workspace += parameters;
  if (sharding == Sharding::zero3) {
    const Duration gather = shards_time(link, holders, expert_part(cost, parameters));
    messages += gather;
    cost.forward = std::max(cost.forward, gather);
    cost.workspace += 2 * parameters;
  }
  cost.backward_weight += std::max(messages - cost.backward(), Duration{0});
  return cost;
}

}  // namespace stagecraft
