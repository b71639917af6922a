#include "planner/defaults.hpp"

#include <algorithm>

namespace stagecraft {

Precision usual_precision(const Profile& profile, const Cluster& cluster) {
  if (!profile.entries.empty()) return profile.entries.front().setting.precision;
  const DeviceKind& kind = cluster.kinds.front();
  return kind.flops_bf16 > kind.flops_fp32 ? Precision::bfloat16 : Precision::float32;
}

std::int64_t usual_sequence(const Profile& profile) {
  return profile.entries.empty() ? profile.model.sequence
                                 : profile.entries.front().setting.sequence;
}

std::int64_t usual_microbatch(const Profile& profile) {
  std::int64_t largest = 1;
  for (const ProfileEntry& entry : profile.entries) {
    largest = std::max(largest, entry.setting.microbatch);
  }
  return largest;
}

}  // namespace stagecraft
