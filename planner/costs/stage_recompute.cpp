#include "planner/costs/stage_recompute.hpp"

#include <algorithm>

#include "profiles/error.hpp"

namespace stagecraft {

int layers_again(const Stage& stage, Recomputed what) {
  return static_cast<int>(std::ranges::count(stage.again, what));
}

std::string recompute_in_words(const Stage& stage) {
  if (stage.again.empty()) return std::string(to_string(stage.recompute));
  const int layers = stage.layers.size();
  const int full = layers_again(stage, Recomputed::full);
  const int selective = layers_again(stage, Recomputed::selective);
  if (full + selective == 0) return std::string(to_string(Recompute::none));
  if (selective == layers) return std::string(to_string(Recomputed::selective));
  if (full == 0) return concat(selective, " of ", layers, " layers selective");
  const std::string again = concat(full, " of ", layers, " layers");
  return selective == 0 ? again : concat(again, " + ", selective, " selective");
}

}  // namespace stagecraft
