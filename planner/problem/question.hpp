// Conversion between a problem and the question that a plan's file records.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

Question question_of(const Problem& problem);

/// The problem that a plan itself implies: model, cluster, batch, optimizer and degrees, without
/// constraints. The profile must be in the model's own order.
Problem problem_about(const Plan& plan, const Profile& profile, const Cluster& cluster);

/// The problem of a plan's question. The profile must be in the model's own order. Throws Error
/// (input) if the question names device kinds that the cluster does not have.
Problem problem_of(const Question& question, const Plan& plan, const Profile& profile,
                   const Cluster& cluster);

}  // namespace stagecraft
