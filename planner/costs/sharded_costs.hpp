// What ZeRO-2 and 3 add to every microbatch (Rajbhandari et al. 2020, sections 5 and 7).

#pragma once

#include "planner/costs/cost_book.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// One collective of what is dense, and one of what experts have.
Duration one_after_another(Collective collective, const StageGroups& groups,
                           const WithExperts<Bytes>& bytes);

/// A layer of which those of a stage's groups keep a shard each. Each microbatch's gradients are
/// scattered in its backward; under zero3 the layer's parameters are gathered for its forward and
/// again for its backward, the next layer's while it computes (FSDP's prefetch). Of alike layers a
/// pass thus takes the longer of computing and messages: what is longer than its forward, or than
/// its backward, is added to that. Whole for a while are the gradients of the layer at work and,
/// under zero3, its parameters and the next layer's.
LayerCost with_shards(LayerCost cost, Sharding sharding, const StageGroups& groups);

}  // namespace stagecraft
