// Stages as other planners and runtimes give them: any set of layers, devices by their number.

#pragma once

#include <vector>

#include "planner/plan/plan.hpp"

namespace stagecraft {

struct ForeignStage {
  std::vector<int>
      layers;  ///< indices into the model's layers; all stages before hold their inputs
  int replicas = 1;
  int tensor_parallel = 1;  ///< devices of each replica
  Recompute recompute = Recompute::none;
  /// Cluster devices, replica by replica; empty: the next ones in order.
  std::vector<int> devices;
};

/// Layers stage by stage; inside a stage as the model has them. Empty for the model's own order.
std::vector<int> layer_order(const std::vector<ForeignStage>& stages);

/// Gives the plan these stages, and the order of layers that they need.
void set_stages(Plan& plan, const std::vector<ForeignStage>& stages);

}  // namespace stagecraft
