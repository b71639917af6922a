#include "planner/problem/defaults.hpp"

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/kernel_times.hpp"

namespace stagecraft {

namespace {

bool is_faster_in_bf16(const DeviceKind& kind) {
  return kind.flops_bf16 > kind.flops_fp32;
}

}  // namespace

std::vector<DeviceKind> kinds_in_use(const Cluster& cluster, std::optional<int> most,
                                     const std::vector<int>& excluded) {
  std::vector<int> kinds;
  int left = most.value_or(device_count(cluster));
  for (int device = 0; device < device_count(cluster) && left > 0; ++device) {
    if (std::ranges::find(excluded, device) != excluded.end()) continue;
    --left;
    const int kind = cluster.devices[static_cast<std::size_t>(device)];
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
  }
  std::vector<DeviceKind> result;
  for (const int kind : kinds) result.push_back(cluster.kinds[static_cast<std::size_t>(kind)]);
  return result;
}

Precision usual_precision(const Profile& profile, const std::vector<DeviceKind>& kinds) {
  if (!profile.entries.empty()) return profile.entries.front().setting.precision;
  return std::ranges::all_of(kinds, is_faster_in_bf16) ? Precision::bfloat16 : Precision::float32;
}

std::string why_usual_precision(const Profile& profile, const std::vector<DeviceKind>& kinds) {
  const auto with = std::ranges::find_if(kinds, is_faster_in_bf16);
  const auto without = std::ranges::find_if_not(kinds, is_faster_in_bf16);
  if (!profile.entries.empty() || with == kinds.end() || without == kinds.end()) return "";
  const bool all_have_fp16 =
      std::ranges::all_of(kinds, [](const DeviceKind& kind) { return kind.flops_fp16 > 0; });
  return concat("planned in fp32, which all devices have: ", without->name,
                without->flops_bf16 > 0 ? " is no faster in bf16, which " : " has no bf16, which ",
                with->name, " would be planned in by itself",
                all_have_fp16 ? "; --precision fp16 is known to all, too" : "");
}

std::int64_t usual_sequence(const Profile& profile) {
  return profile.entries.empty() ? profile.model.sequence
                                 : profile.entries.front().setting.sequence;
}

bool estimates_kernels(const Profile& profile) {
  return profile.entries.empty() && profile.model.transformer.has_value();
}

void require_estimated_kernels(const Profile& profile) {
  if (estimates_kernels(profile)) return;
  fail_usage(
      "how layers run can be chosen for transformers whose costs are estimated; ",
      profile.entries.empty() ? "this model is no transformer" : "these layers were measured");
}

void require_experts(const Profile& profile) {
  require_estimated_kernels(profile);
  if (!has_experts(profile.model))
    fail_usage("a dispatcher brings tokens to experts; this model has none");
}

void require_float8_recipe(const LayerKernels& kernels, Precision precision,
                           const std::vector<DeviceKind>& kinds) {
  for (const DeviceKind& kind : kinds) {
    const std::string why = against_float8_recipe(kernels, precision, kind);
    if (why.empty()) continue;
    fail_usage(why, "; plan without --fp8-recipe ", to_string(*kernels.float8_recipe));
  }
}

void forget_usual_float8_recipe(LayerKernels& kernels, const std::vector<DeviceKind>& kinds) {
  const bool is_usual = std::ranges::all_of(kinds, [&](const DeviceKind& kind) {
    return usual_float8_recipe(kind.name) == kernels.float8_recipe;
  });
  if (is_usual) kernels.float8_recipe.reset();
}

void require_fused_loss(const LayerKernels& kernels) {
  const std::string why = against_fused_loss(kernels);
  if (!why.empty()) fail_usage(why, "; leave one away");
}

void require_fused_loss(const LayerKernels& kernels, Precision precision) {
  require_fused_loss(kernels);
  const bool is_bf16 = precision == Precision::bfloat16 || is_float8(precision);
  if (kernels.fused_loss != FusedLoss::native || is_bf16) return;
  fail_usage("Megatron-LM's compiled loss rounds gradients to bf16, and layers compute in ",
             to_string(precision), "; leave the fused loss native away");
}

void require_router_fusion(const LayerKernels& kernels, const Profile& profile) {
  const std::string why = against_router_fusion(kernels, profile.model);
  if (!why.empty()) fail_usage(why, "; leave it away");
}

void require_overlap(const LayerKernels& kernels, const Profile& profile,
                     const std::vector<DeviceKind>& kinds) {
  require_estimated_kernels(profile);
  if (kernels.overlap.experts && !has_experts(profile.model))
    fail_usage("overlap experts is of messages between experts; this model has none");
  for (const DeviceKind& kind : kinds) {
    const std::string why = against_overlap(kernels, kind);
    if (!why.empty()) fail_usage(why, "; leave it away");
  }
}

std::string overlap_of_nothing(const Plan& plan) {
  const MessageOverlap& overlap = plan.kernels.overlap;
  if (overlap.tensor && tensor_degree(plan) == 1)
    return "overlap tensor is of messages between tensor-parallel peers, and there are none";
  if (overlap.tensor && !plan.parallelism.sequence)
    return "overlap tensor is of gathers and scatters of tokens; without sequence parallelism "
           "there are "
           "none";
  if (overlap.experts && plan.parallelism.expert == 1)
    return "overlap experts is of messages between experts, and each device has all of them";
  return "";
}

void require_recompute_modules(const LayerKernels& kernels, const Profile& profile) {
  require_estimated_kernels(profile);
  const std::string why = against_recompute_modules(kernels, profile.model);
  if (!why.empty()) fail_usage(why, "; leave it away");
}

std::int64_t usual_microbatch(const Profile& profile) {
  std::int64_t largest = 1;
  for (const ProfileEntry& entry : profile.entries) {
    largest = std::max(largest, entry.setting.microbatch);
  }
  return largest;
}

}  // namespace stagecraft
