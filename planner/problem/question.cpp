#include "planner/problem/question.hpp"

#include <algorithm>

#include "profiles/error.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

Question question_of(const Problem& problem) {
  Question question{problem};
  question.target = problem.target == nullptr ? "" : to_words(*problem.target);
  question.sequence_parallel = problem.parallelism.sequence;
  if (!problem.other_parallelism.empty()) question.parallelism = parallelism_choices(problem);
  if (!problem.other_sharding.empty()) question.sharding = sharding_choices(problem);
  for (const DeviceKind& kind : with_usable_memory(problem).kinds) {
    question.memory.push_back(kind.memory_unlimited ? std::nullopt
                                                    : std::optional(usable_memory(kind)));
  }
  return question;
}

Problem problem_about(const Plan& plan, const Profile& profile, const Cluster& cluster) {
  Problem problem;
  problem.model_name = plan.model;
  problem.cluster_name = plan.cluster;
  problem.profile_hash = plan.profile;
  problem.profile = profile;
  problem.order = plan.order;
  problem.cluster = cluster;
  problem.precision = plan.precision;
  problem.kernels = plan.kernels;
  problem.global_batch = plan.batch.global;
  problem.sequence = plan.batch.sequence;
  problem.requests = plan.requests;
  problem.optimizer = plan.optimizer;
  problem.parallelism = plan.parallelism;
  return problem;
}

Problem problem_of(const Question& question, const Plan& plan, const Profile& profile,
                   const Cluster& cluster) {
  if (question.memory.size() != cluster.kinds.size()) {
    fail("the plan's question speaks of ", question.memory.size(), " kinds of device, ",
         plan.cluster, " has ", cluster.kinds.size(), "; make the plan again");
  }
  Problem problem = problem_about(plan, profile, cluster);
  static_cast<Constraints&>(problem) = question;
  for (std::size_t kind = 0; kind < cluster.kinds.size(); ++kind) {
    problem.cluster.kinds[kind].memory_unlimited = !question.memory[kind];
    problem.cluster.kinds[kind].reserve = 0;
    if (question.memory[kind]) problem.cluster.kinds[kind].memory = *question.memory[kind];
  }
  if (!question.sharding.empty()) {
    problem.optimizer.sharding = question.sharding.front();
    problem.other_sharding.assign(question.sharding.begin() + 1, question.sharding.end());
  }
  if (!question.parallelism.empty()) problem.parallelism = question.parallelism.front();
  problem.parallelism.sequence = question.sequence_parallel;
  for (std::size_t i = 1; i < question.parallelism.size(); ++i) {
    problem.other_parallelism.push_back(question.parallelism[i]);
    problem.other_parallelism.back().sequence = question.sequence_parallel;
  }
  if (!question.target.empty()) problem.target = &find_target(question.target);
  // The step stands for all objectives; for schedules that never drain, the steady state does.
  const bool drains = std::ranges::all_of(problem.schedules, [](const ScheduleChoice& choice) {
    return find_schedule(choice.name).weights == WeightPolicy::flush;
  });
  problem.objective = drains ? ObjectiveKind::step : ObjectiveKind::throughput;
  return problem;
}

}  // namespace stagecraft
