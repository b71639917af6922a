// The flags of `plan` that define the planner's problem.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/problem/problem.hpp"
#include "planner/space/target_question.hpp"
#include "profiles/profile.hpp"
#include "tools/options/device_options.hpp"
#include "tools/options/request_options.hpp"
#include "tools/options/training_run.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

class Console;

/// Flags as they were given.
struct PlanningOptions {
  std::string model, microbatch = "auto", tensor_parallel = "auto", precision, kernels, dispatcher,
                     cuda_graphs, fp8_recipe, fused_loss, router_fusion, recompute_modules, overlap,
                     optimizer = "adamw", sharding = "auto", schedule = "auto",
                     sequence_parallel = "auto", context_parallel = "auto",
                     expert_parallel = "auto", expert_tensor_parallel = "auto";
  double expert_load = 1;
  int expert_nodes = 0;  ///< 0: not given
  DeviceOptions devices;
  std::string memory_limit, recompute = "auto", objective = "step", gradient_bucket;
  std::vector<std::string> fix;
  TrainingRunFlags run;
  std::string exclude;
  std::string target;  ///< NAME or NAME@VERSION
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  RequestOptions requests;
  std::string samples_per_replica;                     ///< --mbs
  int pipeline = 0, virtual_stages = 0, replicas = 0;  ///< --pp, --vpp, --dp; 0: not given
  int max_stages = 0;
  int min_layers_per_stage = 1;
  bool straight = false;
};

/// Declares MODEL, CLUSTER and all constraints on plans.
void declare_planning(CLI::App& app, PlanningOptions& options);

/// The problem; CLUSTER is recorded as an input of the verb. Throws Error (usage) for malformed or
/// contradicting flags.
Problem planning_problem(Console& console, const PlanningOptions& options,
                         const LoadedProfile& loaded);

/// Which properties the user set; all others are defaults, which a framework may override.
SaidOfPlans said_of_plans(const PlanningOptions& options);

/// Notes on defaults, and on flags without effect.
std::vector<std::string> notes_on(const PlanningOptions& options, const Problem& problem);

}  // namespace stagecraft
