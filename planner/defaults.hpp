// What is taken where nobody says.

#pragma once

#include "profiles/cluster.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// What the profile was measured in, else bf16 where the devices are faster with it, else fp32.
Precision usual_precision(const Profile& profile, const Cluster& cluster);
/// What the profile was measured with, else the model's own; 0 where samples are not sequences.
std::int64_t usual_sequence(const Profile& profile);
/// The largest measured one, or 1.
std::int64_t usual_microbatch(const Profile& profile);

}  // namespace stagecraft
