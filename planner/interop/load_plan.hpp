// Plan files, and the files that they name.

#pragma once

#include <string>
#include <string_view>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// Reads a plan and what it names. Files are looked up as given, then beside the plan. Throws Error
/// (input) if the model or profile has changed since (hash) — with the remedy — or the plan does
/// not validate.
struct LoadedPlan {
  Plan plan;
  Profile profile;  ///< in the plan's order
  Cluster cluster;
  std::string path;
  std::string hash;  ///< of the plan file
};
LoadedPlan load_plan(std::string_view path);
/// The same of a text that has been read from there already; standard input can be read only once.
LoadedPlan load_plan_text(const std::string& text, std::string_view path);

}  // namespace stagecraft
