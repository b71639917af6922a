// The flags of `import` for files with stages: MODEL, CLUSTER, and the properties that the format
// leaves open.

#pragma once

#include <string>
#include <vector>

#include "planner/interop/importers.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

class Console;

/// Flags as they were given; empty or 0: not given.
struct PlanFlags {
  std::string model, cluster, precision, kernels, dispatcher, cuda_graphs, fp8_recipe, fused_loss,
      router_fusion, recompute_modules, overlap, optimizer, sharding, gradient_bucket, schedule,
      replicas;
  std::int64_t batch = 0, microbatch = 0, sequence = 0;
  std::vector<std::string> variables;  ///< NAME=VALUE
  bool any() const;
};

/// Reads NAME=VALUE pairs. Throws Error (usage) for malformed pairs and repeated names.
ScriptVariables read_variables(const std::vector<std::string>& words);

/// The built-in model that the file names or, for Megatron-LM, describes; empty if there is none.
/// Throws Error (usage), with a command that writes the model, if it describes another model.
std::string model_in_file(const PlanImporter& importer, const std::string& content,
                          const std::string& path, const PlanFlags& flags);

void declare_plan_flags(CLI::App& app, PlanFlags& flags);

/// The question of the flags for a file with stages, with MODEL and CLUSTER loaded. Throws Error
/// (usage), naming the flag that is wrong or missing.
PlanQuestion question_from(Console& console, const PlanFlags& flags);

}  // namespace stagecraft
