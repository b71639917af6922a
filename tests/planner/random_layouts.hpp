// Parts of random layouts, and what bounds say of a whole space.

#pragma once

#include <algorithm>
#include <vector>

#include "planner/search/enumerate/chains.hpp"
#include "tests/planner/cases.hpp"

namespace stagecraft::tests {

/// Of up to as many pipeline devices as the setting may have, on as many devices as there are;
/// empty where it may have none.
inline std::vector<int> random_replicas(Random& random, const Space& space,
                                        const Setting& setting) {
  std::vector<int> replicas;
  int left = space.devices(setting);
  const int most = std::min(space.most_pipeline_devices(setting), left);
  for (int p = most == 0 ? 0 : random.between(1, most); p > 0; --p) {
    const int count = std::min(random.between(1, space.most_replicas(setting)), left - (p - 1));
    replicas.push_back(count);
    left -= count;
  }
  return replicas;
}

/// Of so many stages, each of at least one layer.
inline std::vector<int> random_cuts(Random& random, int layers, int stages) {
  std::vector<int> cuts{0};
  for (int s = 1; s < stages; ++s)
    cuts.push_back(random.between(cuts.back() + 1, layers - stages + s));
  cuts.push_back(layers);
  return cuts;
}

/// What bounds leave of all settings.
struct Bounded {
  bool open = false;   ///< some tables hold a plan of at most the step that was asked for
  Time least = never;  ///< by walks
};
inline Bounded bounded(const Space& space, Time step) {
  Bounded all;
  for (const Setting& setting : space.settings()) {
    all.least = std::min(all.least, LoopedWalk(space, setting).least());
    all.open = ChainBounds(space, setting).probe(step) || all.open;
  }
  return all;
}

}  // namespace stagecraft::tests
