// Stages in the form of other planners and runtimes: any set of layers, and device numbers.

#pragma once

#include <vector>

#include "planner/plan/plan.hpp"

namespace stagecraft {

struct ForeignStage {
  std::vector<int>
      layers;  ///< indices of the model's layers; their inputs must be in earlier stages
  int replicas = 1;
  int tensor_parallel = 1;  ///< devices of each replica
  Recompute recompute = Recompute::none;
  /// Cluster devices, replica by replica; empty: the next devices in order.
  std::vector<int> devices;
};

/// The layers stage by stage, within a stage in the model's order. Empty if that is the model's own
/// order.
std::vector<int> layer_order(const std::vector<ForeignStage>& stages);

/// Gives the plan these stages, and the order of layers that they need.
void set_stages(Plan& plan, const std::vector<ForeignStage>& stages);

}  // namespace stagecraft
