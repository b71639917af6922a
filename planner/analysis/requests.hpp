// How many requests a plan for inference has room for.

#pragma once

#include <cstdint>
#include <optional>

#include "planner/costs/predict.hpp"

namespace stagecraft {

struct RequestRoom {
  std::int64_t requests = 0;  ///< of the plan's tokens, at once, in whole microbatches
  int device = 0;             ///< that is full first
  Bytes each = 0;             ///< what that device keeps of one
  bool operator==(const RequestRoom&) const = default;
};

/// Memory grows by the same with each microbatch: weights and the hungriest layer's workspace stay.
/// Nothing where the plan trains, where nothing is kept of requests, or where memory has no end.
std::optional<RequestRoom> room_for_requests(const Plan& plan, const Profile& profile,
                                             const Cluster& cluster);

}  // namespace stagecraft
