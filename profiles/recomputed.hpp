// Recomputation: work that is repeated in the backward to save memory in the forward.

#pragma once

#include <string_view>

namespace stagecraft {

/// The recomputation of a layer.
enum class Recomputed {
  none,
  selective,  ///< the attention between scores and weighted sum (Korthikanti et al. 2022)
  full,       ///< everything
  with_next,  ///< everything, in one go with the layer behind it, whose input is not kept either:
              ///< a run of such layers ends with a full one
};
std::string_view to_string(Recomputed recompute);

}  // namespace stagecraft
