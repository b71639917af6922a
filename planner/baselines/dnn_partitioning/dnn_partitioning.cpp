// dnn-partitioning's split of the throughput problem (see max_load.hpp), on its own inputs with
// their exact figures, or on any profile (dnn_question.hpp).

#include "planner/baselines/baselines.hpp"
#include "planner/baselines/compatibility.hpp"
#include "planner/baselines/dnn_partitioning/dnn_question.hpp"
#include "planner/baselines/dnn_partitioning/max_load.hpp"
#include "planner/baselines/own_figures.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

SearchResult infeasible(const Problem& problem, const MaxLoadProblem& question) {
  return no_stages({.strategy = "dnn-partitioning",
                    .none = concat("no contiguous split over ", question.accelerators, " devices"),
                    .counts = "fits the layers' sizes, as dnn-partitioning counts them",
                    .memory = question.memory,
                    .otherwise = runs_nowhere(problem, question)});
}

/// Our evaluator has no CPUs beside the cluster's devices.
void reject_if_on_processor(Candidate& candidate, const MaxLoadSplit& split) {
  for (std::size_t part = 0; part < split.parts.size(); ++part) {
    if (!split.parts[part].on_processor) continue;
    candidate.prediction.reset();
    candidate.plan.predicted.reset();
    candidate.rejected =
        concat("dnn-partitioning puts stage ", part,
               " on a CPU of the file, which our "
               "evaluator does not know; name a CLUSTER to split over its devices alone");
  }
}

}  // namespace

SearchResult search_dnn_partitioning(const Problem& problem, const SearchControl& control) {
  const MaxLoadProblem question = max_load_problem(problem);
  const std::optional<MaxLoadSplit> split =
      split_by_max_load(question, most_downsets_of_max_load, control.stop);
  if (!split) return infeasible(problem, question);
  std::vector<ForeignStage> stages;
  for (const MaxLoadPart& part : split->parts) stages.push_back({.layers = part.members});
  SearchResult result = foreign_result(
      problem, "dnn-partitioning", stages,
      {.name = "max load", .value = split->load, .unit = "ms", .lower_bound = split->lower_bound},
      split->compared);
  reject_if_on_processor(result.plans.front(), *split);
  result.interrupted = control.stop.stop_requested();
  return result;
}

}  // namespace stagecraft
