#include "planner/plan/plan_words.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "planner/plan/layer_names.hpp"
#include "profiles/error.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// "4", or where they differ that of each: "4-2-2"; of many, the least and the most: "1..8".
std::string degrees_in_words(const std::vector<int>& degrees) {
  const auto [least, most] = std::ranges::minmax(degrees);
  if (least == most) return std::to_string(least);
  constexpr std::size_t few = 8;
  if (degrees.size() > few) return concat(least, "..", most);
  std::string text;
  for (const int degree : degrees) text += concat(text.empty() ? "" : "-", degree);
  return text;
}

/// Of the pipeline devices, whose stages all have the same.
template <class Degree>
std::string degrees_of(const Plan& plan, Degree degree) {
  std::vector<int> degrees;
  for (int device = 0; device < pipeline_devices(plan); ++device) {
    const StagePlacement placement = find_schedule(plan.schedule.name).placement;
    for (int stage = 0; stage < static_cast<int>(plan.stages.size()); ++stage) {
      if (device_of_stage(placement, stage, pipeline_devices(plan)) != device) continue;
      degrees.push_back(degree(plan.stages[static_cast<std::size_t>(stage)]));
      break;
    }
  }
  return degrees_in_words(degrees);
}

std::string_view words_of(Sharding sharding) {
  switch (sharding) {
    case Sharding::none: return "";
    case Sharding::zero1: return "ZeRO-1";
    case Sharding::zero2: return "ZeRO-2";
    case Sharding::zero3: return "ZeRO-3";
  }
  return "";
}

/// "none", "selective", "full", or of how many layers.
std::string recompute_in_a_word(const Plan& plan, const Model& model) {
  const LayerRange blocks = model.transformer ? decoder_layers(model) : LayerRange{};
  const int all = model.transformer ? blocks.size() : static_cast<int>(model.layers.size());
  int full = 0, selective = 0;
  for (const Stage& stage : plan.stages) {
    for (int layer = stage.layers.first; layer < stage.layers.end; ++layer) {
      if (model.transformer && (layer < blocks.first || layer >= blocks.end)) continue;
      const auto place = static_cast<std::size_t>(layer - stage.layers.first);
      Recomputed what = stage.again.empty() ? Recomputed::none : stage.again[place];
      if (stage.recompute == Recompute::full) what = Recomputed::full;
      if (what == Recomputed::selective) ++selective;
      if (what == Recomputed::full || what == Recomputed::with_next) ++full;
    }
  }
  if (full == all && all > 0) return "full";
  const LayerModules& modules = plan.kernels.again;
  const std::string which = modules.empty() ? "" : concat(" (", to_string(modules), ")");
  if (selective == all && all > 0) return "selective" + which;
  if (full == 0 && selective == 0) return "none";
  std::string text;
  if (full > 0) text += concat("full ", full);
  if (selective > 0) text += concat(text.empty() ? "" : " + ", "selective ", selective);
  text += concat(" of ", all, model.transformer ? " blocks" : " layers");
  return selective > 0 ? text + which : text;
}

/// "MBS 1 x 64": of each replica.
std::string microbatches_in_words(const Plan& plan, std::string_view times) {
  const Batch& batch = plan.batch;
  const std::vector<int> replicas = replicas_of_stages(plan);
  const bool shares = plan.replicas == ReplicaPolicy::split;
  const bool alike =
      std::ranges::all_of(replicas, [&](int count) { return count == replicas.front(); });
  if (!shares) return concat("MBS ", batch.microbatch, times, batch.microbatches);
  if (alike && batch.microbatch % replicas.front() == 0)
    return concat("MBS ", batch.microbatch / replicas.front(), times, batch.microbatches);
  return concat("microbatches of ", batch.microbatch, " over replicas", times, batch.microbatches);
}

}  // namespace

std::string plan_words(const Plan& plan, const Model& model, bool unicode) {
  const std::string dot = unicode ? " · " : " | ";
  const auto tensor = [&](const Stage& stage) {
    return tensor_degree(plan.parallelism, stage.devices.front().size());
  };
  const auto data = [](const Stage& stage) { return static_cast<int>(stage.devices.size()); };
  std::string text = concat("TP", degrees_of(plan, tensor));
  if (plan.parallelism.sequence && tensor_degree(plan) > 1) text += "+SP";
  if (plan.parallelism.context > 1) text += concat(" CP", plan.parallelism.context);
  text += concat(" PP", pipeline_devices(plan));
  if (plan.schedule.virtual_stages > 1) text += concat(" VPP", plan.schedule.virtual_stages);
  text += concat(" DP", degrees_of(plan, data));
  if (plan.parallelism.expert > 1) text += concat(" EP", plan.parallelism.expert);
  if (plan.parallelism.expert_tensor > 0 && tensor_degree(plan) > 1)
    text += concat(" ETP", plan.parallelism.expert_tensor);
  text += dot + microbatches_in_words(plan, unicode ? " × " : " x ");
  if (plan.optimizer.sharding != Sharding::none)
    text += concat(dot, words_of(plan.optimizer.sharding));
  if (!serves(plan)) text += dot + "recompute " + recompute_in_a_word(plan, model);
  if (plan.optimizer.gradient_bucket > 0) text += dot + "gradients overlapped";
  return text + dot + plan.schedule.name;
}

}  // namespace stagecraft
