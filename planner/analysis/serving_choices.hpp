// Other configurations to serve a model on the same devices: more tensor parallelism for lower
// latency, or more replicas for higher throughput.

#pragma once

#include <stop_token>
#include <vector>

#include "planner/analysis/serving_table.hpp"
#include "planner/interop/load_plan.hpp"

namespace stagecraft {

/// A configuration of tensor-parallel peers x pipeline devices x equal replicas, and its serving
/// figures.
struct ServingChoice {
  int tensor = 1;
  int pipeline = 1;
  int replicas = 1;
  ServingTable table;
};

struct ServingChoices {
  std::vector<ServingChoice> fit;  ///< most tensor-parallel peers first, then fewest stages
  /// Configurations without room for a request; their tables are empty.
  std::vector<ServingChoice> too_large;
};

/// All configurations on the cluster's first `devices` devices: tensor-parallel degrees that are
/// powers of two within the innermost links and divide the model's heads, and all numbers of stages
/// that divide the rest, cut for equal time. The plan's other degrees stay. Empty if the plan
/// trains, if its devices differ, or if costs were measured; incomplete if a stop is requested.
ServingChoices serving_choices(const LoadedPlan& loaded, int devices, const std::stop_token& stop);

}  // namespace stagecraft
