#include "planner/costs/stage_recompute.hpp"

#include <algorithm>
#include <span>

#include "planner/plan/layer_names.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

int layers_again(const Stage& stage, Recomputed what) {
  return static_cast<int>(std::ranges::count(stage.again, what));
}

void recompute_in_runs(Stage& stage, const LayerRange& layers, int length) {
  stage.again.resize(static_cast<std::size_t>(stage.layers.size()), Recomputed::none);
  for (int layer = layers.first; layer < layers.end; ++layer) {
    const bool ends_run = layer + 1 == layers.end || (layer + 1 - layers.first) % length == 0;
    stage.again[static_cast<std::size_t>(layer - stage.layers.first)] =
        ends_run ? Recomputed::full : Recomputed::with_next;
  }
}

std::optional<int> length_of_runs(const Plan& plan,
                                  const std::function<LayerRange(const Stage&)>& layers_of) {
  const auto does_runs_of = [&](int length) {
    return std::ranges::all_of(plan.stages, [&](const Stage& stage) {
      Stage expected = stage;
      expected.again.clear();
      recompute_in_runs(expected, layers_of(stage), length);
      const bool does_nothing = stage.again.empty() && layers_of(stage).size() == 0;
      return stage.recompute == Recompute::none && (does_nothing || stage.again == expected.again);
    });
  };
  int most = 0;
  for (const Stage& stage : plan.stages) most = std::max(most, layers_of(stage).size());
  for (int length = 1; length <= most; ++length) {
    if (does_runs_of(length)) return length;
  }
  return {};
}

std::vector<Recomputed> again_everywhere(const Model& model, RecomputeEverywhere what) {
  std::vector<Recomputed> again(model.layers.size(), Recomputed::full);
  switch (what) {
    case RecomputeEverywhere::none:
    case RecomputeEverywhere::stages: return {};
    case RecomputeEverywhere::layers: return again;
    case RecomputeEverywhere::selective:
    case RecomputeEverywhere::blocks: break;
  }
  const bool is_selective = what == RecomputeEverywhere::selective;
  const LayerRange blocks = model.transformer ? decoder_layers(model) : LayerRange{};
  for (int layer = 0; layer < static_cast<int>(again.size()); ++layer) {
    const bool is_block = blocks.first <= layer && layer < blocks.end;
    again[static_cast<std::size_t>(layer)] = !is_block      ? Recomputed::none
                                             : is_selective ? Recomputed::selective
                                                            : Recomputed::full;
  }
  return again;
}

void recompute_everywhere(Stage& stage, RecomputeEverywhere what,
                          const std::vector<Recomputed>& again) {
  stage.recompute = what == RecomputeEverywhere::stages ? Recompute::full : Recompute::none;
  stage.again.clear();
  if (again.empty()) return;
  const auto own = std::span(again).subspan(static_cast<std::size_t>(stage.layers.first),
                                            static_cast<std::size_t>(stage.layers.size()));
  if (std::ranges::any_of(own, [](Recomputed each) { return each != Recomputed::none; }))
    stage.again.assign(own.begin(), own.end());
}

std::string recompute_in_words(const Stage& stage) {
  if (stage.again.empty()) return std::string(to_string(stage.recompute));
  const int layers = stage.layers.size();
  const int together = layers_again(stage, Recomputed::with_next);
  const int full = layers_again(stage, Recomputed::full) + together;
  const int selective = layers_again(stage, Recomputed::selective);
  if (full + selective == 0) return std::string(to_string(Recompute::none));
  if (selective == layers) return std::string(to_string(Recomputed::selective));
  if (full == 0) return concat(selective, " of ", layers, " layers selective");
  std::string again = concat(full, " of ", layers, " layers");
  if (together > 0)
    again += concat(" in ", full - together, full - together == 1 ? " run" : " runs");
  return selective == 0 ? again : concat(again, " + ", selective, " selective");
}

}  // namespace stagecraft
