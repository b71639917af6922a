// The other ways to serve a model on the same devices: more of them share each layer, for tokens
// that come sooner, or more replicas stand side by side, for more of them.

#pragma once

#include <stop_token>
#include <vector>

#include "planner/analysis/serving_table.hpp"
#include "planner/interop/load_plan.hpp"

namespace stagecraft {

/// Tensor-parallel peers x pipeline devices x replicas, all alike, and what they serve.
struct ServingChoice {
  int tensor = 1;
  int pipeline = 1;
  int replicas = 1;
  ServingTable table;
};

struct ServingChoices {
  std::vector<ServingChoice> fit;  ///< most tensor-parallel peers first, then fewest stages
  /// Without room for a request, tables empty.
  std::vector<ServingChoice> too_large;
};

/// Of all that use so many of the cluster's first devices: powers of two of tensor-parallel peers
/// within the innermost links, as far as they divide the model's heads, and all numbers of stages
/// that divide what is left, cut for equal time. The plan's other degrees stay. Nothing where the
/// plan trains, its devices differ, or times were measured; fewer where `stop` is requested.
ServingChoices serving_choices(const LoadedPlan& loaded, int devices, const std::stop_token& stop);

}  // namespace stagecraft
