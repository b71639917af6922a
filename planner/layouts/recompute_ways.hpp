// Which stages of a layout recompute, where not all of its devices have room for what they keep.
//
// A device with several stages can make room in several ways, which may take equally long by
// themselves and yet give very different steps: what one stage does again may fill a bubble, or
// hold up all devices after it.

#pragma once

#include <optional>
#include <vector>

#include "planner/timing/fast_clock.hpp"

namespace stagecraft {

/// Those that stand on the pipeline device, in model order.
std::vector<int> stages_of(const Setting& setting, const Layout& layout, int pipeline_device);

/// The stages of one pipeline device recompute as little time as makes it fit. False if nothing
/// does; then they are as they were.
bool recompute_to_fit(FastClock& clock, const Space& space, const Setting& setting,
                      int pipeline_device, Layout& layout);

/// The layout with the stages recomputing that cost least time and make it fit; nothing if none do.
std::optional<Layout> recomputed_to_fit(FastClock& clock, const Space& space,
                                        const Setting& setting, Layout layout);

/// The stages of one pipeline device recompute such that it fits and the step is the least, while
/// those of others stay as they are. False if nothing makes it fit; then they do, too.
bool recompute_for_step(FastClock& clock, const Space& space, const Setting& setting,
                        int pipeline_device, Layout& layout, Effort& effort);

/// The layout with only those devices recomputing otherwise that do not fit, one after the other;
/// nothing if nothing makes one fit.
std::optional<Layout> repaired(FastClock& clock, const Space& space, const Setting& setting,
                               Layout layout, Effort& effort);

}  // namespace stagecraft
