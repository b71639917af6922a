// What is taken where nobody says.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.hpp"
#include "profiles/cluster.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// Kinds that the cluster's first `most` devices are of, but for those excluded: each once, in the
/// order of the devices.
std::vector<DeviceKind> kinds_in_use(const Cluster& cluster, std::optional<int> most = {},
                                     const std::vector<int>& excluded = {});
/// What the profile was measured in, else bf16 where devices of all kinds are faster with it, else
/// fp32. At least one kind.
Precision usual_precision(const Profile& profile, const std::vector<DeviceKind>& kinds);
/// Why that is not what some of the kinds would have by themselves; empty if it is.
std::string why_usual_precision(const Profile& profile, const std::vector<DeviceKind>& kinds);
/// What the profile was measured with, else the model's own; 0 where samples are not sequences.
std::int64_t usual_sequence(const Profile& profile);
/// Whether layers' costs are estimated kernel by kernel: a transformer's that was not measured.
bool estimates_kernels(const Profile& profile);
/// Throws Error (usage) where nothing depends on whose kernels layers have.
void require_estimated_kernels(const Profile& profile);
/// Throws Error (usage) where there are no experts to bring tokens to.
void require_experts(const Profile& profile);
/// Throws Error (usage) where a recipe is said for what is not rounded to 8 bits, or one that
/// devices of these kinds do not multiply.
void require_float8_recipe(const LayerKernels& kernels, Precision precision,
                           const std::vector<DeviceKind>& kinds);
/// Where devices of all these kinds have it without a word, none is said.
void forget_usual_float8_recipe(LayerKernels& kernels, const std::vector<DeviceKind>& kinds);
/// Throws Error (usage) where a loss is to be fused that is not Megatron-LM's.
void require_fused_loss(const LayerKernels& kernels);
/// The same of a loss that is asked for, which must not lose precision: Megatron-LM's compiled one
/// rounds its gradients to bf16, whatever is trained (fused_cross_entropy.py).
void require_fused_loss(const LayerKernels& kernels, Precision precision);
/// Throws Error (usage) where a router is to be fused that layers do not have.
void require_router_fusion(const LayerKernels& kernels, const Profile& profile);
/// Throws Error (usage) where messages are to run beside kernels and do not.
void require_overlap(const LayerKernels& kernels, const Profile& profile,
                     const std::vector<DeviceKind>& kinds);
/// Of what is to run beside kernels, that of which the plan has no messages, in words; else empty.
std::string overlap_of_nothing(const Plan& plan);
/// Throws Error (usage) where modules are to be done again that layers do not have.
void require_recompute_modules(const LayerKernels& kernels, const Profile& profile);
/// The largest measured one, or 1.
std::int64_t usual_microbatch(const Profile& profile);

}  // namespace stagecraft
