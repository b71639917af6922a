// Faults of a plan, with their places, for `validate` and for readers of plan files.

#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// The first fault. `path` is its place in the plan's JSON, member by member: {"stages", 1,
/// "layers"}.
struct PlanFault {
  std::vector<std::variant<std::string, int>> path;
  std::string message;
  std::vector<std::string> help;
};

/// Checks everything except the schedule's own constraints, which need its generator.
std::optional<PlanFault> find_structural_fault(const Plan& plan, const Model& model,
                                               const Cluster& cluster);

/// Nothing if the plan is valid.
std::optional<PlanFault> find_fault(const Plan& plan, const Model& model, const Cluster& cluster);

/// The pipeline device that stage s stands on, by the schedule's placement.
int pipeline_device_of(const Plan& plan, int stage);

}  // namespace stagecraft
