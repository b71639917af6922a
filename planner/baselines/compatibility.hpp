// Other planners' plans: stages found in somebody else's cost model, made a plan of ours and scored
// by our evaluator.
//
// A compatibility strategy keeps to its planner's formulas, quirks included, so that its objective
// can be held against published figures; what its choice would really cost, `predict` says.

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
/// same devices need a schedule that comes back to them so. Where no setting can run them, the
/// candidate is rejected with the reason and has no prediction.
Candidate adopt(const Problem& problem, std::string_view name,
                const std::vector<ForeignStage>& stages);

/// Whether the first runs, fits, and is faster than the second.
bool runs_better(const Candidate& a, const Candidate& b);

/// What a compatibility strategy returns: its stages adopted, with its own objective.
/// `candidates` counts what it compared.
SearchResult foreign_result(const Problem& problem, std::string_view name,
                            const std::vector<ForeignStage>& stages, const Objective& objective,
                            std::int64_t candidates);

/// The same of a candidate that bears the strategy's name.
SearchResult foreign_result(Candidate candidate, const Objective& objective,
                            std::int64_t candidates);

/// The plan that a search finds, without its figures: a choice to compare with. Nothing if it finds
/// none, or cannot take the network, the graph or the costs.
std::optional<Candidate> choice_of(const std::function<SearchResult()>& search);

}  // namespace stagecraft
