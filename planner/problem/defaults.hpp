// Defaults for properties that the user did not set, and checks of those that were set.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.hpp"
#include "profiles/cluster.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// The kinds of the cluster's first `most` devices that are not excluded, each once, in the order
/// of the devices.
std::vector<DeviceKind> kinds_in_use(const Cluster& cluster, std::optional<int> most = {},
                                     const std::vector<int>& excluded = {});
/// The default precision: that of the profile's measurements; else bf16 if all kinds of devices are
/// faster with it; else fp32. Needs at least one kind.
Precision usual_precision(const Profile& profile, const std::vector<DeviceKind>& kinds);
/// A note if `usual_precision` differs from what some kinds would have alone; else empty.
std::string why_usual_precision(const Profile& profile, const std::vector<DeviceKind>& kinds);
/// The default sequence length: that of the profile's measurements, else the model's own; 0 if
/// samples are not sequences.
std::int64_t usual_sequence(const Profile& profile);
/// Whether costs are estimated kernel by kernel: a transformer without measurements.
bool estimates_kernels(const Profile& profile);
/// Throws Error (usage) if the choice of kernels has no effect on the profile.
void require_estimated_kernels(const Profile& profile);
/// Throws Error (usage) if the model has no experts to dispatch tokens to.
void require_experts(const Profile& profile);
/// Throws Error (usage) if an fp8 recipe is set for another precision, or one that devices of these
/// kinds do not support.
void require_float8_recipe(const LayerKernels& kernels, Precision precision,
                           const std::vector<DeviceKind>& kinds);
/// Clears the fp8 recipe if it is the default of all these kinds.
void forget_usual_float8_recipe(LayerKernels& kernels, const std::vector<DeviceKind>& kinds);
/// Throws Error (usage) if a fused loss is asked for with other kernels than Megatron-LM's.
void require_fused_loss(const LayerKernels& kernels);
/// As above, and also throws if the loss would lose precision: Megatron-LM's compiled loss rounds
/// its gradients to bf16 in every precision (fused_cross_entropy.py).
void require_fused_loss(const LayerKernels& kernels, Precision precision);
/// Throws Error (usage) if router fusion is asked for and the layers have no router.
void require_router_fusion(const LayerKernels& kernels, const Profile& profile);
/// Throws Error (usage) if an overlap of messages with kernels is asked for that does not exist.
void require_overlap(const LayerKernels& kernels, const Profile& profile,
                     const std::vector<DeviceKind>& kinds);
/// Names the overlaps that were asked for and have no effect, since the plan has no such messages;
/// else empty.
std::string overlap_of_nothing(const Plan& plan);
/// Throws Error (usage) if modules are to be recomputed that the layers do not have.
void require_recompute_modules(const LayerKernels& kernels, const Profile& profile);
/// The default microbatch: the largest measured one, or 1.
std::int64_t usual_microbatch(const Profile& profile);

}  // namespace stagecraft
