// Questions for importers of plans: a transformer of any depth on so many devices.

#pragma once

#include "planner/interop/importers.hpp"
#include "tests/planner/cases.hpp"

namespace stagecraft::tests {

/// Embedding, `blocks` blocks and head.
inline Model transformer_of(int blocks) {
  return make_transformer("deep", *builtin_model("tiny-gpt").transformer, blocks, 8);
}

inline PlanQuestion question_of(int blocks, const std::string& cluster, PlanOptions options = {}) {
  PlanQuestion question{.model_name = "deep.model.json",
                        .cluster_name = cluster,
                        .profile_hash = {},
                        .profile = {},
                        .model_content = {},
                        .cluster = parse_cluster(cluster),
                        .options = std::move(options)};
  question.profile.model = transformer_of(blocks);
  return question;
}

/// The row of that name.
inline const PlanImporter& plan_importer(std::string_view name) {
  for (const PlanImporter& importer : plan_importers) {
    if (importer.name == name) return importer;
  }
  return plan_importers.front();
}

inline Plan imported(std::string_view format, const std::string& content,
                     const PlanQuestion& question) {
  return import_plan(plan_importer(format), content, "plan.txt", question).plan;
}

/// Layers per stage.
inline std::vector<int> sizes_of(const Plan& plan) {
  std::vector<int> sizes;
  for (const Stage& stage : plan.stages) sizes.push_back(stage.layers.size());
  return sizes;
}

}  // namespace stagecraft::tests
