// The number of concurrent requests that fit in memory under a plan for inference.

#pragma once

#include <cstdint>
#include <optional>

#include "planner/costs/predict.hpp"

namespace stagecraft {

/// The device that is full first, and the number of requests over all replicas that it allows.
struct RequestRoom {
  std::int64_t requests = 0;  ///< concurrent requests, each with the plan's tokens
  int device = 0;             ///< device that is full first
  Bytes each = 0;             ///< bytes per request on that device
  Bytes weights = 0;
  Bytes pass = 0;     ///< workspace and messages of a pass
  Bytes reserve = 0;  ///< memory that the framework reserves
  Bytes limit = 0;    ///< usable memory, including `reserve`
  bool operator==(const RequestRoom&) const = default;
};

/// The plan on its stages' first replicas alone.
Plan of_one_replica(Plan plan);

/// Memory grows linearly with requests; weights and the largest workspace of a layer are constant.
/// Passes are as full as the plan's chunks or all requests allow; in a plan without requests they
/// are whole microbatches. Nothing if the plan trains, if no request state is kept, or if memory is
/// unlimited.
std::optional<RequestRoom> room_for_requests(const Plan& plan, const Profile& profile,
                                             const Cluster& cluster);

}  // namespace stagecraft
