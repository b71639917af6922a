// What `import` needs besides a file with stages: MODEL, CLUSTER, and what the format leaves open.

#pragma once

#include <string>
#include <vector>

#include "planner/interop/importers.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

class Console;

/// Flags as they were given; empty or 0: not at all.
struct PlanFlags {
  std::string model, cluster, precision, kernels, dispatcher, cuda_graphs, fp8_recipe, fused_loss,
      router_fusion, recompute_modules, overlap, optimizer, sharding, gradient_bucket, schedule,
      replicas;
  std::int64_t batch = 0, microbatch = 0, sequence = 0;
  std::vector<std::string> variables;  ///< NAME=VALUE
  bool any() const;
};

/// NAME=VALUE, each. Throws Error (usage) for others, and for names that stand twice.
ScriptVariables read_variables(const std::vector<std::string>& words);

/// MODEL as the file has it: the built-in model that it names or, of Megatron-LM, describes; empty
/// if it has none. Throws Error (usage), with a command that writes the model, where it describes
/// another one.
std::string model_in_file(const PlanImporter& importer, const std::string& content,
                          const std::string& path, const PlanFlags& flags);

void declare_plan_flags(CLI::App& app, PlanFlags& flags);

/// The question that the flags ask about a file with stages: MODEL and CLUSTER are loaded. Throws
/// Error (usage) naming the flag that is wrong or missing.
PlanQuestion question_from(Console& console, const PlanFlags& flags);

}  // namespace stagecraft
