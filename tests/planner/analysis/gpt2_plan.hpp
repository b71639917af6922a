// A plan of GPT-2 for tests of what may be changed in one.

#pragma once

#include "planner/interop/load_plan.hpp"

namespace stagecraft::tests {

/// GPT-2 774M (36 blocks between embedding and head) on so many pipeline devices of so many
/// replicas, each of tensor-parallel peers, in turns of the cluster's devices.
inline LoadedPlan gpt2_plan(int pipeline, int data, int tensor,
                            const std::string& cluster = "8xa100") {
  LoadedPlan loaded;
  loaded.cluster = load_cluster(cluster);
  loaded.profile.model = builtin_model("gpt2-774m");
  Plan& plan = loaded.plan;
  plan.model = "gpt2-774m";
  plan.cluster = cluster;
  plan.precision = Precision::bfloat16;
  plan.batch = {.global = 64, .microbatch = data, .microbatches = 64 / data, .sequence = 1024};
  const int layers = static_cast<int>(loaded.profile.model.layers.size());
  int device = 0;
  for (int p = 0; p < pipeline; ++p) {
    Stage stage{.layers = {layers * p / pipeline, layers * (p + 1) / pipeline}, .devices = {}};
    for (int r = 0; r < data; ++r) {
      stage.devices.emplace_back();
      for (int t = 0; t < tensor; ++t) stage.devices.back().push_back(device++);
    }
    plan.stages.push_back(stage);
  }
  return loaded;
}

}  // namespace stagecraft::tests
