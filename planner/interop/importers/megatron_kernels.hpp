// Megatron-LM's flags for the execution of layers: dispatcher, CUDA graphs, loss, fp8 recipe,
// recomputed modules, and messages that overlap with kernels.

#pragma once

#include <string>
#include <vector>

#include "planner/interop/importers.hpp"
#include "planner/interop/importers/megatron_flags.hpp"

namespace stagecraft {

/// Whether layers do modules again: --recompute-granularity selective, or --moe-layer-recompute.
bool recomputes_modules(const MegatronFlags& flags);
/// Whether no layer has any of the modules that are named, or plans know none of them.
bool recomputes_nothing_there(const MegatronFlags& flags, const Model& model);

/// Into the question's options, beside what the command line says of them. The layers' costs are
/// estimated. Throws Error (usage) where both say something.
void set_kernels(const MegatronFlags& flags, PlanQuestion& question);

/// Sentences on flags that have no effect, or that Megatron-LM itself refuses.
std::vector<std::string> kernel_notes(const MegatronFlags& flags, Framework kernels,
                                      const Model& model);

}  // namespace stagecraft
