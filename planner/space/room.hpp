// Whether memory suffices for one copy of the model, which no search can change.

#pragma once

#include "planner/space/space.hpp"

namespace stagecraft {

/// Whether weights, gradients and the optimizer's states of all layers, each kept once, exceed the
/// memory of all devices together. Then no plan fits, whatever its stages, microbatches, schedule,
/// replicas and recomputation, since all of these only add to it, and sharding leaves one copy.
bool lacks_room_for_one_copy(const Space& space);
/// `lacks_room_for_one_copy` of the problem's space; needs a problem with costs.
bool lacks_room_for_one_copy(const Problem& problem);

}  // namespace stagecraft
