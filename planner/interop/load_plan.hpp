// Loading plan files with the files that they name.

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
  std::string hash;  ///< content hash of the plan file
  /// Hugging Face's model_type ("gpt_neox") if the model is a config.json; else empty.
  std::string architecture = {};
};
/// Reads a plan with its model, profile and cluster, by the paths in the plan or, failing that,
/// beside the plan. Throws Error (input), with a remedy, if the hash of the model or profile has
/// changed, or if the plan is not valid.
LoadedPlan load_plan(std::string_view path);
/// As `load_plan`, from the plan's text, which was already read from `path`, since standard input
/// can only be read once.
LoadedPlan load_plan_text(const std::string& text, std::string_view path);

}  // namespace stagecraft
