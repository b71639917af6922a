// How many requests a plan for inference has room for.

#pragma once

#include <cstdint>
#include <optional>

#include "planner/costs/predict.hpp"

namespace stagecraft {

/// Of the device that is full first, and of as many requests as there are replicas times what it
/// has room for.
struct RequestRoom {
  std::int64_t requests = 0;  ///< of the plan's tokens, at once
  int device = 0;             ///< that is full first
  Bytes each = 0;             ///< what that device keeps of one
  Bytes weights = 0;
  Bytes pass = 0;     ///< what a pass works in, and what comes in and goes out
  Bytes reserve = 0;  ///< what the framework takes
  Bytes limit = 0;    ///< what may be used, `reserve` included
  bool operator==(const RequestRoom&) const = default;
};

/// The plan on its stages' first replicas alone.
Plan of_one_replica(Plan plan);

/// Memory grows by the same with each request: weights and the workspace of the hungriest layer
/// stay. Passes are as full as the plan's chunks, or as all requests that there is room for make
/// them. Where a plan says nothing of requests they are whole microbatches. Nothing where the plan
/// trains, where nothing is kept of requests, or where memory has no end.
std::optional<RequestRoom> room_for_requests(const Plan& plan, const Profile& profile,
                                             const Cluster& cluster);

}  // namespace stagecraft
