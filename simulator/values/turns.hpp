// Round-robin replicas with weight updates during the run: PipeDream's 1F1B-RR (Narayanan et al.,
// SOSP 2019, section 3.2).
//
// Stage s has r(s) replicas, and replica k mod r(s) computes the whole of microbatch k. r(s)
// consecutive microbatches form a round of the stage: after its backwards the replicas sum their
// gradients and update together, while other stages, with longer or shorter rounds, are at other
// microbatches. A stage with one replica updates after each microbatch, as without replicas. With 2
// replicas before 1:
//
//   stage 0, replica 0   F0 F0 F2 F2 .  B0 B0 B0 B0 .  .  .  .  U  F4 F4 B2 B2 B2 B2 .  U  …
//   stage 0, replica 1   F1 F1 F3 F3 .  .  .  .  .  B1 B1 B1 B1 U  F5 F5 .  B3 B3 B3 B3 U  …
//   stage 1              .  .  F0 B0 B0 U  F1 B1 B1 U  F2 B2 B2 U  F3 B3 B3 U  F4 …
//
// Stage s keeps K(s) microbatches in flight, the number of devices from it to the end, so that none
// of these idles. Each replica has ceil(K/r) of them, and as many versions of the weights: a
// forward of round j = floor(k / r) uses version
//
//   max(0, j - ceil(K(s) / r(s)) + 1)
//
// the same on all replicas of the stage, since each is at its own j-th microbatch. At the first
// stage, ceil(K/r) is the paper's NOAM.
//
// K must also be large enough to avoid a deadlock. A replica's update waits for the last gradient
// of the round, which the next stage computes only after as many forwards as its own K. None of
// these forwards may depend on that update, so
//
//   K(s) >= K(s + 1) + r(s) - 1
//
// which the number of devices satisfies with one to spare.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/lowering/lower.hpp"

namespace stagecraft {

/// Forwards before the first backward of each pipeline device with round-robin replicas: the number
/// of devices from there to the end.
std::vector<int> round_robin_warm_up(const std::vector<int>& replicas, int microbatches);

/// Microbatches per update of a stage with `replicas` replicas: the schedule's number, or a round
/// for round-robin replicas under stashing. 0 with a flush.
int update_interval(const Schedule& schedule, ReplicaPolicy policy, int replicas);

/// The least number of microbatches after which all stages have updated and are back at their first
/// replicas. 1 with a flush.
int common_interval(const Schedule& schedule, ReplicaPolicy policy,
                    const std::vector<int>& replicas);

/// The least common multiple, limited to the largest int.
int common_multiple(const std::vector<int>& numbers);

/// The reason why replicas cannot be round-robin, and a remedy.
struct TurnsFault {
  std::string what;
  std::string remedy;
};

/// Checks that updates and round-robin replicas are compatible; `replicas` per stage. Schedules
/// with a flush, and stages of one replica, always are.
std::optional<TurnsFault> find_turns_fault(const Schedule& schedule,
                                           const std::vector<int>& replicas);

/// Checks that no warm-up is so short that replicas could deadlock.
std::optional<TurnsFault> find_window_fault(const Schedule& schedule,
                                            const std::vector<int>& replicas);

}  // namespace stagecraft
