// Plan files, and the files that they name.

#pragma once

#include <string>
#include <string_view>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// A plan with the files that it names.
struct LoadedPlan {
  Plan plan;
  Profile profile;  ///< in the plan's order
  Cluster cluster;
  std::string path;
  std::string hash;  ///< of the plan file
  /// Hugging Face's model_type ("gpt_neox"), where the model is a config.json; empty otherwise.
  std::string architecture = {};
};
/// Reads a plan, and its model, profile and cluster: by the paths in the plan, else beside the
/// plan. Throws Error (input), with a remedy, if the model or profile has changed since (by its
/// hash), and if the plan is not valid.
LoadedPlan load_plan(std::string_view path);
/// As `load_plan`, from the text of the plan, which was read from `path` before: standard input can
/// be read only once.
LoadedPlan load_plan_text(const std::string& text, std::string_view path);

}  // namespace stagecraft
