// Which stages of a layout recompute, if some devices lack memory for all activations.
//
// A device with several stages can make room in several ways. Ways with equal recomputation time
// may give very different steps: the recomputation of one stage may fill a bubble, or delay all
// devices after it.

#pragma once

#include <optional>
#include <vector>

#include "planner/timing/fast_clock.hpp"

namespace stagecraft {

/// The stages on the pipeline device, in model order.
std::vector<int> stages_of(const Setting& setting, const Layout& layout, int pipeline_device);

/// Chooses the recomputation of least time with which the pipeline device fits. Returns false, and
/// leaves the layout unchanged, if there is none.
bool recompute_to_fit(FastClock& clock, const Space& space, const Setting& setting,
                      int pipeline_device, Layout& layout);

/// The layout with, on every device, the recomputation of least time with which it fits; nothing if
/// a device cannot fit.
std::optional<Layout> recomputed_to_fit(FastClock& clock, const Space& space,
                                        const Setting& setting, Layout layout);

/// Chooses the recomputation of one pipeline device with which it fits and the step is shortest,
/// with other devices unchanged. Returns false, and leaves the layout unchanged, if the device
/// cannot fit.
bool recompute_for_step(FastClock& clock, const Space& space, const Setting& setting,
                        int pipeline_device, Layout& layout, Effort& effort);

/// Changes the recomputation of only those devices that do not fit, one after the other; nothing if
/// a device cannot fit.
std::optional<Layout> repaired(FastClock& clock, const Space& space, const Setting& setting,
                               Layout layout, Effort& effort);

}  // namespace stagecraft
