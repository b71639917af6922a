// Requirements of runtimes that number their ranks: equally many replicas and peers for every
// stage, on the devices in order.

#pragma once

#include <cstdint>

#include "planner/interop/exporters/reasons.hpp"
#include "planner/interop/importers/common.hpp"

namespace stagecraft {

/// The plan's degrees, those of stage 0. A reason against the first stage that ranks cannot have:
/// other replicas or peers than stage 0, or other devices than the next ones.
Degrees even_degrees(Reasons& reasons, const Plan& plan);

/// Samples of a microbatch on each replica. A reason unless replicas share each microbatch, and
/// evenly.
std::int64_t samples_per_replica(Reasons& reasons, const Plan& plan, int replicas);

/// The recomputation of stage 0. Adds a reason unless all stages recompute as a whole, or none
/// does.
Recompute same_recompute(Reasons& reasons, const Plan& plan);

/// A reason if the plan shares tokens of a sequence or experts, for which the format has no words.
void require_whole_layers(Reasons& reasons, const Plan& plan);

/// A reason for each of: tokens that are sent to experts by other kernels than NCCL's, CUDA graphs.
void require_usual_launching(Reasons& reasons, const Plan& plan);

/// A reason for each of: layers in another order than the model's, weights that are not flushed,
/// forwards ahead that are not the schedule's own.
void require_plain(Reasons& reasons, const Plan& plan);

}  // namespace stagecraft
