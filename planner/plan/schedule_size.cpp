#include "planner/plan/schedule_size.hpp"

#include <cstdint>

#include "profiles/error.hpp"

namespace stagecraft {

std::string against_size(int stages, int microbatches, int pieces) {
  constexpr std::int64_t most_instructions = 4'000'000;
  constexpr double passes = 2;
  if (passes * stages * microbatches * pieces <= static_cast<double>(most_instructions)) return {};
  return concat("a schedule of ", stages, stages == 1 ? " stage and " : " stages and ",
                microbatches, " microbatches has more than the ", most_instructions,
                " instructions that are worked out");
}

}  // namespace stagecraft
