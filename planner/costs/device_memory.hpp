// Overrides of the cluster's device memory: a given size, a fraction, or the memory that a plan was
// made for.

#pragma once

#include <string>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// Sets the memory of every device, as the driver would report it, including the kind's reserve.
void give_memory(Cluster& cluster, Bytes memory);

/// A message if a kind reserves all of its memory; else empty.
std::string why_nothing_left(const Cluster& cluster);

/// Reduces the memory to this fraction, with an unchanged reserve; no effect on unlimited memory.
void take_part_of_memory(DeviceKind& kind, double part);

/// Gives devices of unlimited memory the memory that the plan was made for, if the plan records it.
/// Other devices keep theirs, since the plan or the cluster may have changed.
void take_memory_of_question(Cluster& cluster, const Plan& plan);

/// A message, with a remedy, if devices have another memory than the plan was made for; else empty.
std::string other_memory(const Cluster& cluster, const Plan& plan);

/// The size, rounded up for display: "159GiB", "6.7MiB".
std::string rounded_up(Bytes bytes);

}  // namespace stagecraft
