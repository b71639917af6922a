// Better layouts by simulated annealing (Kirkpatrick, Gelatt and Vecchi 1983), where moving one
// layer at a time ends too soon: with few microbatches several stages per device are best if they
// grow towards the middle of a pipeline and shrink again, and on the way there most single steps
// make it slower.

#pragma once

#include "planner/layouts/layouts.hpp"

namespace stagecraft {

/// The best layout that a walk of so much effort comes across, or the one it began with: one layer
/// goes from a stage to another one, often of the same device, and both stages' devices recompute
/// what they then must; or other stages of a device recompute than before. At first steps may get
/// longer by about this part of the step. Always the same one for the same input and seed. The
/// layout it begins with may fit.
Layout anneal(FastClock& clock, const Space& space, const Setting& setting, Layout layout,
              double heat, unsigned seed, Effort& effort);

}  // namespace stagecraft
