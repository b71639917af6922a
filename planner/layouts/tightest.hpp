// The layout that needs least memory: whose fullest device exceeds its own by the least. It tells
// whether anything fits, and how much it would take.
//
// It begins with a balanced layout whose fullest device hands on single layers, as long as that
// helps. With one stage per device, a bisection then looks for the least memory with which stages
// that are as long as they can be reach the last layer; that would be all if what stages hand on
// did not count. So stages are chosen one after the other, first stage first:
//
//   layers   [ . . . | . . | . . . . . . . ]
//              d0      d1    d2 …               over(d0), over(d1)  <  best
//
// A path ends where one of its devices is as full as the fullest one of the best layout so far
// (what a device has of the stages that are chosen is the least that it will have), or where the
// layers that are left need more than all devices have room for. With one stage per device it also
// ends where another path has come to the same layer with emptier devices.
//
// With very many layers there are too many paths to follow.

#pragma once

#include <functional>
#include <optional>

#include "planner/layouts/layouts.hpp"

namespace stagecraft {

/// Replicas for each pipeline device that are worth a try, many devices first: all there are, or if
/// they are too many, equally many for each.
std::vector<std::vector<int>> ways_to_replicate(const Space& space, const Setting& setting);

/// By how much the fullest device of any layout with these replicas exceeds its memory at least: as
/// if what devices hold whoever has it were spread evenly. Bytes, rounded down; the least number
/// where that is not known.
Bytes least_over(const Space& space, const Setting& setting, const std::vector<int>& replicas);

struct Tightest {
  Layout layout;
  Bytes over = 0;  ///< of the fullest device
};

/// By how many bytes a layout's fullest device exceeds its memory; no less than what the clock
/// says.
using MeasureOver = std::function<Bytes(const Layout& layout)>;

/// Of the setting's layouts with these replicas and less than `below`; nothing if none was found.
/// The least there is, unless the effort ends or layers are very many. Without `measure` the clock
/// has the last word.
std::optional<Tightest> tightest(FastClock& clock, const Space& space, const Setting& setting,
                                 const std::vector<int>& replicas, Bytes below, Effort& effort,
                                 const MeasureOver& measure = {});

}  // namespace stagecraft
