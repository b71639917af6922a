// The degrees and samples of a plan of equal stages. For the sources of this folder.

#pragma once

#include <cstdint>
#include <optional>

#include "planner/plan/plan.hpp"

namespace stagecraft::advising {

struct Numbers {
  int pipeline = 1, virtual_stages = 1, data = 1, tensor = 1, context = 1, expert = 1;
  std::int64_t samples = 1;  ///< per microbatch and replica
};

/// Nothing where stages differ, or replicas have no whole number of samples.
std::optional<Numbers> numbers_of(const Plan& plan);

}  // namespace stagecraft::advising
