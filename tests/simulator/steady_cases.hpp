// Random programs whose iterations repeat.

#pragma once

#include "simulator/engines/steady.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

namespace stagecraft::tests {

/// Calls `visit(program, costs, steady)` for more than a hundred of them.
template <class Visit>
void each_steady_case(unsigned seed, const Visit& visit) {
  Random random(seed);
  int steady = 0;
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    const auto [program, costs] = round % 2 == 0 ? plain_random_case(random) : random_case(random);
    const auto found = steady_iterations(program, costs);
    if (!found) continue;
    ++steady;
    visit(program, costs, *found);
  }
  CHECK(steady > 100);
}

}  // namespace stagecraft::tests
