// The question of a problem, as a plan's file holds it, and the problem of such a question.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

Question question_of(const Problem& problem);

/// What a plan says of its question: model, cluster, batch, optimizer and degrees; no constraints.
/// The profile is in the model's own order.
Problem problem_about(const Plan& plan, const Profile& profile, const Cluster& cluster);

/// The problem of a plan's question. The profile is in the model's own order. Throws Error (input)
/// if the question speaks of other device kinds than the cluster has.
Problem problem_of(const Question& question, const Plan& plan, const Profile& profile,
                   const Cluster& cluster);

}  // namespace stagecraft
