// The cheapest choice of items whose weights add up to at least what is needed: which layers should
// recompute so that a stage fits.

#pragma once

#include <cstdint>
#include <vector>

namespace stagecraft {

struct CoverItem {
  double cost = 0;    ///< at least 0
  double weight = 0;  ///< above 0
};

struct Cover {
  double cost = 0;          ///< cost of the items taken; infinite if all together weigh too little
  double lower_bound = 0;   ///< lower bound on the cost; equal to `cost`, up to rounding, if proved
  std::vector<char> taken;  ///< per item
};

/// Items that weigh least per cost are left out, and what then proves to be too much (Dantzig). The
/// bound is that of fractional items.
Cover greedy_cover(const std::vector<CoverItem>& items, double needed);

/// The least cost by branch and bound from there; equal items are one choice of how many. Beyond
/// `most_steps`, the best so far with the fractional bound.
Cover least_cover(const std::vector<CoverItem>& items, double needed,
                  std::int64_t most_steps = 20'000);

}  // namespace stagecraft
