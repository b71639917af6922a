// Good layouts: balanced ones, made to fit in memory, improved cut by cut.

#pragma once

#include <optional>
#include <vector>

#include "planner/timing/fast_clock.hpp"

namespace stagecraft {

/// Whether every device's memory could suffice.
bool may_fit(FastClock& clock, const Layout& layout);

/// The layout with as few layers handed on to later stages as it takes to fit in memory; nothing if
/// the last ones would not.
std::optional<Layout> made_to_fit(FastClock& clock, const Setting& setting, Layout layout);

/// Layouts near this one that the fast clock likes better, one layer moved at a time, to the next
/// stage or from the fullest device to an emptier one, until there is none. One that may fit in
/// memory stays so.
Layout improve(FastClock& clock, const Space& space, const Setting& setting, Layout layout,
               Effort& effort);

/// The layers in `parts` of equal count; what is left over goes to the first ones.
std::vector<int> even_cuts(int layers, int parts);

/// So many stages on so many devices each, with equal time.
Layout balanced(const Space& space, const Setting& setting, const std::vector<int>& replicas);

/// The same with equal time on every device, however its stages share it: the last is larger than
/// their mean by this part of it, the first smaller.
Layout balanced_devices(const Space& space, const Setting& setting,
                        const std::vector<int>& replicas, double tilt);

/// Where all layers but the first and the last are alike: every stage has as many of them as each
/// can have, and stages that follow each other have one more, from each stage on that leaves none
/// over. One replica per stage; none if there are fewer of them than stages.
std::vector<Layout> layouts_of_two_sizes(const Space& space, const Setting& setting, int devices);

/// Balanced layouts on every number of pipeline devices, with and without replicas; some may not be
/// allowed.
std::vector<Layout> usual_layouts(const Space& space, const Setting& setting, FastClock& clock);

/// So many stages with equally many replicas each, at most so many; devices left over go to the
/// first ones.
std::vector<int> even_replicas(int stages, int devices, int most);

/// Whether the layout is part of the space.
bool is_allowed(const Space& space, const Setting& setting, const Layout& layout);

}  // namespace stagecraft
