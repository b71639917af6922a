// Raising a lower bound by bisection.

#pragma once

#include "planner/space/effort.hpp"

namespace stagecraft {

/// Raises `least`, which no plan is below, as far as `probe(limit)` says that none takes at most
/// `limit`. `goes_on(least, high)` says whether what is left below `high` is worth another probe,
/// and may lower `high` to an incumbent that was found meanwhile.
template <class GoesOn, class Probe>
Time raise_by_bisection(Time least, Time high, const GoesOn& goes_on, const Probe& probe) {
  while (goes_on(least, high)) {
    const Time middle = least + (high - least) / 2;
    if (probe(middle)) {
      high = middle;
    } else {
      least = middle + 1;
    }
  }
  return least;
}

}  // namespace stagecraft
