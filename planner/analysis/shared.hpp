// Plans for clusters whose devices share links, as several do one network card.

#pragma once

#include "planner/analysis/answers.hpp"
#include "planner/costs/shared_links.hpp"

namespace stagecraft {

/// The best plan by its step where messages that cross the same links at once share them. Searches
/// price each message as if it were alone, so that two of them are asked, with the cluster's links
/// and with their parts of these, and what each finds is simulated with shared links; then the best
/// of these made better cut by cut. What bounds plans that share nothing bounds these: no message
/// is faster for it, and passes have an order of their own.
///
/// Predictions of the plans are those without sharing; a note has the step with it, and the gap is
/// that step's. Throws Error (usage) unless the objective is the step.
SearchResult search_with_shared_links(Search search, const Problem& problem,
                                      const SearchControl& control, const LinkSharing& sharing);

/// The plan's step under this sharing.
Duration step_with_shared_links(const Problem& problem, const Plan& plan,
                                const LinkSharing& sharing);

}  // namespace stagecraft
