// A problem in the terms of planners that work on PipeDream's profiles: its states, one microbatch
// size.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/baselines/pipedream/pipedream.hpp"
#include "planner/space/space.hpp"

namespace stagecraft {

/// Devices that the problem lets a plan use.
int devices_of(const Problem& problem);

std::int64_t smallest_microbatch(const Space& space);
std::int64_t largest_microbatch(const Space& space);

/// Costs of the first device's kind, which stands for all.
std::vector<LayerCost> costs_of_first_device(const Problem& problem, const Space& space,
                                             std::int64_t microbatch);

struct StateLimit {
  std::string_view name;     ///< of the strategy
  std::string_view planner;  ///< in words
  int most = 0;
};
/// Throws Error (usage) if there are more states than the planner could ever have handled.
PipedreamStates states_of(const Problem& problem, const Space& space, std::int64_t microbatch,
                          const StateLimit& limit);

/// The choice of PipeDream's released optimizer, without regard to the problem's limits on stages.
/// Nothing if it has no answer, or takes more than a fraction of a second.
std::optional<Candidate> pipedream_choice(const Problem& problem);

/// The state's layers that are not `placed` yet; they are now.
std::vector<int> new_layers(const PipedreamState& state, std::vector<bool>& placed);

/// An answer without a plan.
SearchResult no_plan(std::string_view name, const std::string& reason);

/// A sentence beside the plan, if it could be scored.
void add_note(SearchResult& result, const std::string& note);

}  // namespace stagecraft
