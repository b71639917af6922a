// What `plan` is asked: the flags that say which plans are allowed, as the planner's question.

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
  int expert_nodes = 0;  ///< 0: not said
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
  int pipeline = 0, virtual_stages = 0, replicas = 0;  ///< --pp, --vpp, --dp; 0: not said
  int max_stages = 0;
  int min_layers_per_stage = 1;
  bool straight = false;
};

/// MODEL, CLUSTER and everything that a plan must keep to.
void declare_planning(CLI::App& app, PlanningOptions& options);

/// The question; CLUSTER becomes one of the verb's inputs. Throws Error (usage) for flags that do
/// not read or do not go together.
Problem planning_problem(Console& console, const PlanningOptions& options,
                         const LoadedProfile& loaded);

/// What was said of plans: the rest are defaults, which may give way to what a framework has.
SaidOfPlans said_of_plans(const PlanningOptions& options);

/// What of it may surprise: sentences about defaults, and about flags without effect.
std::vector<std::string> notes_on(const PlanningOptions& options, const Problem& problem);

}  // namespace stagecraft
