// Replicas that take turns while weights are updated on the way: PipeDream's 1F1B-RR (Narayanan et
// al., SOSP 2019, section 3.2).
//
// Stage s has r(s) replicas, and replica k mod r(s) computes microbatch k whole. So many in a row
// are a round of the stage: behind its backwards the replicas sum their gradients and update, all
// at once, while other stages, whose rounds are longer or shorter, are somewhere else. A stage
// alone on its device updates after each microbatch, as ever. With 2 replicas before 1:
//
//   stage 0, replica 0   F0 F0 F2 F2 .  B0 B0 B0 B0 .  .  .  .  U  F4 F4 B2 B2 B2 B2 .  U  …
//   stage 0, replica 1   F1 F1 F3 F3 .  .  .  .  .  B1 B1 B1 B1 U  F5 F5 .  B3 B3 B3 B3 U  …
//   stage 1              .  .  F0 B0 B0 U  F1 B1 B1 U  F2 B2 B2 U  F3 B3 B3 U  F4 …
//
// Stage s keeps K(s) microbatches in flight, as many as there are devices from it to the end, so
// that all of them have something to do. Of these each replica has ceil(K/r), and as many versions
// of the weights: a forward of round j = floor(k / r) meets
//
//   max(0, j - ceil(K(s) / r(s)) + 1)
//
// the same on all replicas of the stage, since each has the j-th microbatch of its own then. At the
// first stage ceil(K/r) is the paper's NOAM.
//
// Windows must also be deep enough that nobody waits in a circle. A replica is behind its update
// when the last one of the round still waits for its gradient, which the next stage computes only
// after so many forwards as its own window holds. None of these may be behind that update, so
//
//   K(s) >= K(s + 1) + r(s) - 1
//
// which devices counted give with one to spare.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/lowering/lower.hpp"

namespace stagecraft {

/// Forwards before the first backward of each pipeline device where replicas take turns: one for
/// each device from there to the end.
std::vector<int> round_robin_warm_up(const std::vector<int>& replicas, int microbatches);

/// Microbatches of each update of a stage with so many replicas: those of the schedule, but of a
/// round where replicas take turns under stashing. 0 with a flush.
int update_interval(const Schedule& schedule, ReplicaPolicy policy, int replicas);

/// Microbatches after which all stages, of so many replicas each, have updated and are back at the
/// first ones; the least. 1 with a flush.
int common_interval(const Schedule& schedule, ReplicaPolicy policy,
                    const std::vector<int>& replicas);

/// The least common multiple, or the most that an int can hold.
int common_multiple(const std::vector<int>& numbers);

/// Why replicas cannot take turns, and what to do.
struct TurnsFault {
  std::string what;
  std::string remedy;
};

/// Whether updates and turns fit together; `replicas` of each stage. Schedules that flush and
/// stages of one replica always do.
std::optional<TurnsFault> find_turns_fault(const Schedule& schedule,
                                           const std::vector<int>& replicas);

/// Whether some window is so short that replicas might wait for each other in a circle.
std::optional<TurnsFault> find_window_fault(const Schedule& schedule,
                                            const std::vector<int>& replicas);

}  // namespace stagecraft
