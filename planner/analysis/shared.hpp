// Plans for clusters whose devices share links, such as a network card.

#pragma once

#include "planner/analysis/answers.hpp"
#include "planner/costs/shared_links.hpp"

namespace stagecraft {

/// The best plan by its step with shared links: concurrent messages on the same links share them. A
/// search prices each message as if it were alone. So there are two searches, with the cluster's
/// links and with each device's share of them; their plans are simulated with shared links, and the
/// best is improved by moving cuts. A lower bound without sharing also holds with it: no message
/// gets faster, and the order of passes is fixed.
///
/// The plans' predictions are those without sharing; a note gives the step with it, from which the
/// gap is computed. Throws Error (usage) unless the objective is the step.
SearchResult search_with_shared_links(Search search, const Problem& problem,
                                      const SearchControl& control, const LinkSharing& sharing);

/// The plan's step with shared links.
Duration step_with_shared_links(const Problem& problem, const Plan& plan,
                                const LinkSharing& sharing);

}  // namespace stagecraft
