// The flags of Megatron-LM for the execution of a plan's layers: precision, dispatcher, CUDA
// graphs, loss.

#pragma once

#include <optional>

#include "planner/interop/exporters/megatron.hpp"
#include "planner/interop/exporters/reasons.hpp"
#include "planner/plan/plan.hpp"
#include "profiles/transformer.hpp"

namespace stagecraft {

/// The plan's fp8 recipe, or what all its devices have where it says none. Where they differ, that
/// is among `reasons`.
Float8Recipe float8_recipe_in_use(Reasons& reasons, const Plan& plan, const Cluster& cluster);

/// `--bf16`, `--fp8-format` and so on; none for fp32, which is Megatron-LM's own default.
void add_precision(Reasons& reasons, MegatronSettings& line, const Plan& plan,
                   const Cluster& cluster);

/// Dispatcher, fused loss and CUDA graphs; `experts` are the model's, if it has any.
void add_kernels(Reasons& reasons, MegatronSettings& line, const Plan& plan,
                 const std::optional<Experts>& experts);

/// Messages that run beside kernels, of peers that there are.
void add_overlap(Reasons& reasons, MegatronSettings& line, const Plan& plan);

/// Modules that Megatron Core cannot recompute with these graphs, or in this precision.
void require_recompute_modules(Reasons& reasons, const Plan& plan, const Cluster& cluster);

/// Restrictions of Megatron-LM's own arguments that configurations on Megatron Core do not have
/// (validate_args of megatron/training/arguments.py).
void require_arguments(Reasons& reasons, const Plan& plan);

}  // namespace stagecraft
