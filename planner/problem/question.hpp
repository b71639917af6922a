// The question of a problem, as a plan's file holds it, and the problem of such a question.

#pragma once

#include "planner/problem/problem.hpp"

namespace stagecraft {

Question question_of(const Problem& problem);

/// The problem of a plan's question. The profile is in the model's own order. Throws Error (input)
/// if the question speaks of other device kinds than the cluster has.
Problem problem_of(const Question& question, const Plan& plan, const Profile& profile,
                   const Cluster& cluster);

}  // namespace stagecraft
