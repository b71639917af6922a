#include "planner/analysis/advice/numbers.hpp"

namespace stagecraft::advising {

std::optional<Numbers> numbers_of(const Plan& plan) {
  Numbers numbers{.pipeline = pipeline_devices(plan),
                  .virtual_stages = plan.schedule.virtual_stages,
                  .data = static_cast<int>(plan.stages.front().devices.size()),
                  .tensor = tensor_degree(plan),
                  .context = plan.parallelism.context,
                  .expert = plan.parallelism.expert,
                  .samples = plan.batch.microbatch};
  for (const Stage& stage : plan.stages) {
    if (static_cast<int>(stage.devices.size()) != numbers.data) return {};
    for (const auto& peers : stage.devices) {
      if (static_cast<int>(peers.size()) != numbers.tensor * numbers.context) return {};
    }
  }
  if (plan.replicas == ReplicaPolicy::split) {
    if (plan.batch.microbatch % numbers.data != 0) return {};
    numbers.samples /= numbers.data;
  }
  return numbers;
}

}  // namespace stagecraft::advising
