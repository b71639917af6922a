// Plans of other planners: stages that were found in another cost model, converted to our plans and
// scored by our evaluator.
//
// A compatibility strategy keeps to its planner's formulas, quirks included, so that its objective
// can be compared with published figures; `predict` gives the cost of its choice.

#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/plan/foreign_stage.hpp"
#include "planner/problem/problem.hpp"

namespace stagecraft {

/// The stages as a candidate: layers ordered stage by stage, each stage on its devices, under the
/// best of the problem's schedules, microbatch sizes and replica policies. Stages that name the
/// same devices need a schedule with virtual stages that places them in this way. If no setting can
/// run them, the candidate is rejected with the reason and has no prediction.
Candidate adopt(const Problem& problem, std::string_view name,
                const std::vector<ForeignStage>& stages);

/// Whether the first runs, fits, and is faster than the second.
bool runs_better(const Candidate& a, const Candidate& b);

/// The result of a compatibility strategy: its stages adopted, with its own objective. `candidates`
/// is the number of plans that it compared.
SearchResult foreign_result(const Problem& problem, std::string_view name,
                            const std::vector<ForeignStage>& stages, const Objective& objective,
                            std::int64_t candidates);

/// The result for a candidate that has the strategy's name.
SearchResult foreign_result(Candidate candidate, const Objective& objective,
                            std::int64_t candidates);

/// The plan that a search finds, without its figures, for comparison. Nothing if it finds none, or
/// if it does not support the network, the graph or the costs.
std::optional<Candidate> choice_of(const std::function<SearchResult()>& search);

}  // namespace stagecraft
