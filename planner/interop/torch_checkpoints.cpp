#include "planner/interop/torch_checkpoints.hpp"

#include "planner/plan/layer_names.hpp"
#include "planner/plan/plan_fault.hpp"

namespace stagecraft {

void wrap_blocks(Plan& plan, const Model& model, int every) {
  const LayerRange blocks = decoder_layers(model);
  const auto is_block = [&](int place) {
    const int layer = plan.order.empty() ? place : plan.order[static_cast<std::size_t>(place)];
    return blocks.first <= layer && layer < blocks.end;
  };
  std::vector<int> counted(static_cast<std::size_t>(pipeline_devices(plan)), 0);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    Stage& stage = plan.stages[s];
    int& count = counted[static_cast<std::size_t>(pipeline_device_of(plan, static_cast<int>(s)))];
    stage.again.clear();
    for (int place = stage.layers.first; place < stage.layers.end; ++place) {
      if (!is_block(place) || ++count % every != 0) continue;
      stage.again.resize(static_cast<std::size_t>(stage.layers.size()), Recomputed::none);
      stage.again[static_cast<std::size_t>(place - stage.layers.first)] = Recomputed::full;
    }
  }
}

}  // namespace stagecraft
