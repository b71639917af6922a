// Heuristic layouts: balanced, made to fit in memory, and improved by local search.

#pragma once

#include <optional>
#include <vector>

#include "planner/timing/fast_clock.hpp"

namespace stagecraft {

/// Whether the layout may fit on every device; false only if it certainly does not.
bool may_fit(FastClock& clock, const Layout& layout);

/// Moves as few layers as possible to later stages so that every device fits; nothing if the last
/// devices would not fit.
std::optional<Layout> made_to_fit(FastClock& clock, const Setting& setting, Layout layout);

/// Local search by the fast clock: moves one layer at a time, to the next stage or from the busiest
/// device to another one, until no move is faster or the effort is spent. A layout that may fit in
/// memory stays one that may.
Layout improve(FastClock& clock, const Space& space, const Setting& setting, Layout layout,
               Effort& effort);

/// Cuts the layers into `parts` of equal count; the first parts get the remainder, one layer each.
std::vector<int> even_cuts(int layers, int parts);

/// A layout of stages of equal time, with these numbers of replicas.
Layout balanced(const Space& space, const Setting& setting, const std::vector<int>& replicas);

/// A layout with equal time on every device. `tilt` distributes it over the device's stages: the
/// last is larger than their mean by this fraction, the first smaller.
Layout balanced_devices(const Space& space, const Setting& setting,
                        const std::vector<int>& replicas, double tilt);

/// If all layers but the first and the last are equal: layouts in which every stage has
/// floor(blocks / stages) of them, and the remainder goes to consecutive stages, one each, from
/// every possible first stage on. One replica per stage; empty if there are fewer blocks than
/// stages.
std::vector<Layout> layouts_of_two_sizes(const Space& space, const Setting& setting, int devices);

/// Balanced layouts on every number of pipeline devices, with and without replicas; the space may
/// not allow some of them.
std::vector<Layout> usual_layouts(const Space& space, const Setting& setting, FastClock& clock);

/// Numbers of replicas of `stages` stages on `devices` devices, as equal as possible and at most
/// `most`; the first stages get the remainder.
std::vector<int> even_replicas(int stages, int devices, int most);

/// Whether the layout is part of the space.
bool is_allowed(const Space& space, const Setting& setting, const Layout& layout);

}  // namespace stagecraft
