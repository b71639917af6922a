// Better layouts by simulated annealing (Kirkpatrick, Gelatt and Vecchi 1983), for cases in which
// local search by single layers ends too early: with few microbatches and several stages per
// device, the best stages grow towards the middle of the pipeline and shrink again, and most single
// moves on the way there make the step longer.

#pragma once

#include "planner/layouts/layouts.hpp"

namespace stagecraft {

/// Returns the best layout found with this effort, or the initial one. A move shifts one layer from
/// a stage to another one, often of the same device, and lets both devices recompute as much as
/// they must; or it changes which stages of a device recompute. `heat` is the initial temperature
/// as a fraction of the step. The initial layout must pass `may_fit`. Deterministic for the same
/// input and seed.
Layout anneal(FastClock& clock, const Space& space, const Setting& setting, Layout layout,
              double heat, unsigned seed, Effort& effort);

}  // namespace stagecraft
