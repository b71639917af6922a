#include "planner/plan/foreign_stage.hpp"

#include <algorithm>
#include <numeric>

namespace stagecraft {

namespace {

/// Replica r has the devices [r t, (r + 1) t) of the list.
std::vector<std::vector<int>> replicas_of(const ForeignStage& stage,
                                          const std::vector<int>& devices) {
  std::vector<std::vector<int>> replicas;
  for (int replica = 0; replica < stage.replicas; ++replica) {
    const auto first = devices.begin() + std::ptrdiff_t{replica} * stage.tensor_parallel;
    replicas.emplace_back(first, first + stage.tensor_parallel);
  }
  return replicas;
}

}  // namespace

std::vector<int> layer_order(const std::vector<ForeignStage>& stages) {
  std::vector<int> order;
  for (const ForeignStage& stage : stages) {
    const auto first = order.insert(order.end(), stage.layers.begin(), stage.layers.end());
    std::sort(first, order.end());
  }
  std::vector<int> own(order.size());
  std::iota(own.begin(), own.end(), 0);
  return order == own ? std::vector<int>{} : order;
}

void set_stages(Plan& plan, const std::vector<ForeignStage>& stages) {
  plan.order = layer_order(stages);
  plan.stages.clear();
  int next = 0;
  int layer = 0;
  for (const ForeignStage& stage : stages) {
    std::vector<int> devices = stage.devices;
    if (devices.empty()) {
      devices.resize(static_cast<std::size_t>(stage.replicas) *
                     static_cast<std::size_t>(stage.tensor_parallel));
      std::iota(devices.begin(), devices.end(), next);
      next += static_cast<int>(devices.size());
    }
    const int end = layer + static_cast<int>(stage.layers.size());
    plan.stages.push_back({{layer, end}, replicas_of(stage, devices), stage.recompute});
    layer = end;
  }
}

}  // namespace stagecraft
