// How much memory devices are taken to have, where that is not what the cluster says: as much as is
// given, a part of it, or what a plan was made for.

#pragma once

#include <string>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// Every device has so much, as the driver would report it: what the device's kind reserves is a
/// part of it.
void give_memory(Cluster& cluster, Bytes memory);

/// Where a kind reserves all of its memory: a sentence that says so; else empty.
std::string why_nothing_left(const Cluster& cluster);

/// Only such a part of the memory, of which the kind reserves as much as before; nothing changes
/// where the memory is unlimited.
void take_part_of_memory(DeviceKind& kind, double part);

/// Devices whose memory is unlimited have what the plan was made for, if it says so. Those that
/// have memory of their own keep it: the plan, or the cluster, may have been changed since.
void take_memory_of_question(Cluster& cluster, const Plan& plan);

/// Where devices have other memory of their own than the plan was made for: a sentence that says
/// so, and how to ask about the other; else empty.
std::string other_memory(const Cluster& cluster, const Plan& plan);

/// At least so much, as people say it: "159GiB", "6.7MiB".
std::string rounded_up(Bytes bytes);

}  // namespace stagecraft
