// How many devices a plan has in each direction, as it is and as it is wished for, and which
// devices these are. For the sources of this folder.

#pragma once

#include <string_view>
#include <vector>

#include "planner/analysis/changes/wishes.hpp"
#include "planner/plan/plan.hpp"

namespace stagecraft::what_if {

/// How many of each; all stages have the same.
struct Shape {
  int pipeline = 1;
  int virtual_stages = 1;
  int data = 1;
  int tensor = 1;
  int context = 1;
  int devices() const { return pipeline * data * tensor * context; }
  int stages() const { return pipeline * virtual_stages; }
  bool operator==(const Shape&) const = default;
};

/// The plan's. Throws Error (input) where its stages differ, so that `what` cannot be set.
Shape require_one_shape(const Plan& plan, std::string_view what);

/// Degrees as wished; replicas take the devices that the others leave. Virtual stages stay. Throws
/// Error (input) where that makes no whole replicas.
Shape wished_shape(const Wishes& wishes, const Shape& now, const Plan& plan);

/// Samples of a microbatch per replica, where replicas split it. Throws Error (input) where that is
/// no whole number.
std::int64_t samples_per_replica(const Plan& plan, const Shape& shape);

/// Devices of each pipeline device, replica by replica.
using DevicesByRank = std::vector<std::vector<std::vector<int>>>;

/// The devices of the wished shape: those of the plan where it keeps degrees and order, else as
/// many of the plan's or the cluster's first ones in the wished order. Throws Error (input) where
/// the cluster has too few, (usage) for an order that is none.
DevicesByRank wished_devices(const Wishes& wishes, const Shape& now, const Shape& shape,
                             const Plan& plan, const Cluster& cluster);

}  // namespace stagecraft::what_if
