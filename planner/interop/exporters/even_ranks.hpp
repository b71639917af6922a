// What runtimes ask of a plan that number their ranks: as many replicas and peers for every stage,
// on the devices in order.

#pragma once

#include <cstdint>
#include <string_view>

#include "planner/interop/importers/common.hpp"

namespace stagecraft {

/// The plan's degrees. Throws Error (input) naming `system` and the first stage that its ranks
/// cannot have: other replicas or peers than stage 0, or other devices than the next ones.
Degrees even_degrees(std::string_view system, const Plan& plan);

/// Samples of a microbatch on each replica. Throws Error (input) unless replicas share each
/// microbatch, and evenly.
std::int64_t samples_per_replica(std::string_view system, const Plan& plan, int replicas);

/// Throws Error (input) unless all stages recompute as a whole, or none.
Recompute same_recompute(std::string_view system, const Plan& plan);

/// Throws Error (input) if the plan shares tokens of a sequence or experts, for which the format
/// has no words.
void require_whole_layers(std::string_view system, const Plan& plan);

/// Throws Error (input) unless layers are in the model's order, weights are flushed, and forwards
/// ahead are the schedule's own.
void require_plain(std::string_view system, const Plan& plan);

}  // namespace stagecraft
