#include "planner/analysis/stage_recomputation.hpp"

#include <algorithm>

#include "planner/plan/layer_names.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

void recompute_all(std::string_view what, const Model& model, std::vector<Stage>& stages) {
  const LayerRange blocks = model.transformer ? decoder_layers(model) : LayerRange{};
  for (Stage& stage : stages) {
    stage.again.clear();
    stage.recompute = what == "full" ? Recompute::full : Recompute::none;
    if (what != "selective" && what != "blocks") continue;
    stage.again.assign(index(stage.layers.size()), Recomputed::none);
    for (int layer = stage.layers.first; layer < stage.layers.end; ++layer) {
      if (layer < blocks.first || layer >= blocks.end) continue;
      stage.again[index(layer - stage.layers.first)] =
          what == "blocks" ? Recomputed::full : Recomputed::selective;
    }
  }
}

std::optional<std::string_view> recompute_of_all(const Plan& plan, const Model& model) {
  const auto done_again = [](const Stage& stage) {
    std::vector<Recomputed> again = stage.again;
    again.resize(index(stage.layers.size()), Recomputed::none);
    return again;
  };
  for (const std::string_view what : {"none", "full", "selective", "blocks"}) {
    std::vector<Stage> stages = plan.stages;
    recompute_all(what, model, stages);
    const bool is_so = std::ranges::equal(stages, plan.stages, [&](const auto& a, const auto& b) {
      return a.recompute == b.recompute && done_again(a) == done_again(b);
    });
    if (is_so) return what;
  }
  return {};
}

}  // namespace stagecraft
