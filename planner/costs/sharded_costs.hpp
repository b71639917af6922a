// The costs that ZeRO-2 and 3 add to every microbatch (Rajbhandari et al. 2020, sections 5 and 7).

#pragma once

#include "planner/costs/cost_book.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// Time of one collective for the dense parameters, then one for the experts'.
Duration one_after_another(Collective collective, const StageGroups& groups,
                           const WithExperts<Bytes>& bytes);

/// The costs of a layer that is sharded over a stage's groups. Each microbatch's gradients are
/// scattered in its backward; under zero3 the layer's parameters are gathered for its forward and
/// again for its backward, while the previous layer computes (FSDP's prefetch). So a pass over
/// equal layers takes the maximum of compute and messages: the excess of messages over the forward,
/// or the backward, is added to it. The gradients of the current layer are whole for a time, and
/// under zero3 also its parameters and the next layer's.
LayerCost with_shards(LayerCost cost, Sharding sharding, const StageGroups& groups);

}  // namespace stagecraft
