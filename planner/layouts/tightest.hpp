// The minimum-memory layout: the one whose fullest device exceeds its memory by the least. It shows
// whether any layout fits, and how much memory would be needed.
//
// The search begins with a balanced layout, whose fullest device moves single layers to others
// while that helps. With one stage per device, a bisection then finds the least memory with which
// stages of maximum length reach the last layer; that would be optimal if messages needed no
// memory. Then stages are chosen one after the other, from the first on, by branch and bound:
//
//   layers   [ . . . | . . | . . . . . . . ]
//              d0      d1    d2 …               over(d0), over(d1)  <  best
//
// A partial layout is pruned if one of its devices is at least as full as the fullest one of the
// best layout so far (more stages only add to it), or if the remaining layers need more than the
// devices have room for. With one stage per device it is also pruned if another partial layout has
// reached the same layer with emptier devices.
//
// With very many layers, this enumeration is left out.

#pragma once

#include <functional>
#include <optional>

#include "planner/layouts/layouts.hpp"

namespace stagecraft {

/// The numbers of replicas per pipeline device to try, many devices first: all assignments, or, if
/// there are too many, only equal numbers.
std::vector<std::vector<int>> ways_to_replicate(const Space& space, const Setting& setting);

/// Lower bound, in bytes rounded down, on the excess of the fullest device over its memory in any
/// layout with these replicas: the bytes that some device must hold, spread evenly over all. The
/// smallest number if unknown.
Bytes least_over(const Space& space, const Setting& setting, const std::vector<int>& replicas);

struct Tightest {
  Layout layout;
  Bytes over = 0;  ///< bytes by which the fullest device exceeds its memory
};

/// Returns the bytes by which a layout's fullest device exceeds its memory; must be at least the
/// clock's value.
using MeasureOver = std::function<Bytes(const Layout& layout)>;

/// The minimum-memory layout of the setting with these replicas, among those with an excess below
/// `below`; nothing if none was found. Exact unless the effort runs out or there are very many
/// layers. Without `measure`, the clock's memory is used.
std::optional<Tightest> tightest(FastClock& clock, const Space& space, const Setting& setting,
                                 const std::vector<int>& replicas, Bytes below, Effort& effort,
                                 const MeasureOver& measure = {});

}  // namespace stagecraft
