// The best plan in Aceso's cost model (see aceso_model.hpp), over contiguous stages, devices per
// stage (powers of two that together are all), tensor-parallel degree and replicas of each stage,
// and microbatch sizes. What a stage recomputes is what Aceso would recompute there.

#pragma once

#include <optional>
#include <vector>

#include "planner/baselines/aceso/aceso_model.hpp"
#include "planner/space/effort.hpp"

namespace stagecraft {

struct AcesoQuestion {
  AcesoMachine machine;
  std::int64_t global_batch = 1;
  std::vector<int> microbatches;  ///< to try
  std::vector<int> degrees;       ///< tensor-parallel degrees to try
  bool may_replicate = true;
  int most_stages = 1;
};

struct AcesoAnswer {
  std::optional<AcesoPlan>
      plan;  ///< none if nothing fits, or nothing was found before the end of the effort
  AcesoFigures figures;
  double lower_bound = 0;   ///< seconds; no plan of the question has less
  std::int64_t judged = 0;  ///< stages whose time was compared
  bool is_complete = true;  ///< it came to its end
};

/// Exact, unless stopped, or out of effort. Figures must be in the database's tables; a stage whose
/// microbatch share and degree are in none is not possible.
AcesoAnswer search_by_aceso(const AcesoDatabase& database, const AcesoQuestion& question,
                            Effort effort = no_limit);

}  // namespace stagecraft
