// dnn-partitioning's throughput problem without contiguity (see scattered_split.hpp), on its own
// inputs with their exact figures, or on any profile (dnn_question.hpp).
//
// The layers of a device are then no stage, but can be several, as schedules with several stages
// per device have them: each part is cut into what can be done at each of the pipeline's visits
// (device_visits.hpp). Few parts are so regular; of the others there is the objective alone.

#include <array>
#include <set>

#include "planner/baselines/baselines.hpp"
#include "planner/baselines/compatibility.hpp"
#include "planner/baselines/dnn_partitioning/device_visits.hpp"
#include "planner/baselines/dnn_partitioning/dnn_question.hpp"
#include "planner/baselines/dnn_partitioning/scattered_split.hpp"
#include "planner/baselines/own_figures.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view name = "dnn-partitioning-noncontiguous";
/// Visits that are spoken of where no schedule asked for has so many.
constexpr int most_visits = 64;

using Parts = std::vector<std::vector<int>>;

SearchResult nothing_fits(const Problem& problem, const MaxLoadProblem& question, bool is_proved) {
  return no_stages({.strategy = name,
                    .none = concat(is_proved ? "no split over " : "no split was found that over ",
                                   question.accelerators, " devices"),
                    .counts = "fits the layers' sizes, as dnn-partitioning counts them",
                    .memory = question.memory,
                    .otherwise = runs_nowhere(problem, question)});
}

Dag dag_of(const Problem& problem) {
  const Model& model = problem.profile.model;
  return {.nodes = static_cast<int>(model.layers.size()), .edges = model.edges};
}

Parts parts_of(const MaxLoadSplit& split) {
  Parts parts;
  for (const MaxLoadPart& part : split.parts) parts.push_back(part.members);
  return parts;
}

/// Whether stages stand somewhere under this choice.
bool has_places(StagePlacement placement, int visits) {
  switch (placement) {
    case StagePlacement::linear: return visits == 1;
    case StagePlacement::loop:
    case StagePlacement::wave: return visits >= 1;
    case StagePlacement::vee: return visits == 2;
    case StagePlacement::bidirectional: return false;
  }
  return false;
}

/// The parts under the schedules asked for, as far as any can run them.
std::optional<Candidate> best_candidate(const Problem& problem, const Parts& parts) {
  std::optional<Candidate> best;
  std::set<std::pair<StagePlacement, int>> tried;
  for (const ScheduleChoice& choice : problem.schedules) {
    const StagePlacement placement = find_schedule(choice.name).placement;
    if (!has_places(placement, choice.virtual_stages) ||
        !tried.emplace(placement, choice.virtual_stages).second)
      continue;
    const auto stages = visits_of(dag_of(problem), parts, placement, choice.virtual_stages);
    if (stages.empty()) continue;
    Candidate candidate = adopt(problem, name, stages);
    if (!best || runs_better(candidate, *best)) best = std::move(candidate);
  }
  return best;
}

/// Kinds of schedules with several stages per device, with the name of one of each.
constexpr std::array several_per_device{
    std::pair<StagePlacement, std::string_view>{StagePlacement::loop, "interleaved"},
    std::pair<StagePlacement, std::string_view>{StagePlacement::wave, "hanayo"}};

std::string refusal(const Problem& problem, const Parts& parts) {
  const Dag dag = dag_of(problem);
  if (!visits_of(dag, parts, StagePlacement::linear, 1).empty())
    return "the schedules asked for need several stages per device";
  for (int visits = 2; visits <= most_visits; ++visits) {
    for (const auto& [placement, schedule] : several_per_device) {
      if (visits % fewest_virtual_stages(placement) != 0) continue;
      if (visits_of(dag, parts, placement, visits).empty()) continue;
      return concat("its parts are not contiguous: a pipeline would come to each device ", visits,
                    " times, as under ", schedule, ", but no schedule asked for does so");
    }
  }
  return "its parts are not contiguous, and no order of their layers comes to all devices in turn, "
         "as schedules with several stages per device do; each stage listed is all that one device "
         "has";
}

/// No plan that runs: a stage for each device, whatever its layers read from.
Candidate rejected(const Problem& problem, const Parts& parts, std::string reason) {
  Candidate candidate{.name = std::string(name),
                      .plan = {},
                      .prediction = {},
                      .objective = {},
                      .rejected = std::move(reason)};
  Plan& plan = candidate.plan;
  plan.model = problem.model_name;
  plan.cluster = problem.cluster_name;
  plan.profile = problem.profile_hash;
  plan.precision = problem.precision;
  plan.kernels = problem.kernels;
  const std::int64_t microbatch = problem.microbatches.front();
  plan.batch = {problem.global_batch, microbatch,
                static_cast<int>(problem.global_batch / microbatch), problem.sequence};
  std::vector<ForeignStage> stages;
  for (const std::vector<int>& part : parts) stages.push_back({.layers = part});
  set_stages(plan, stages);
  return candidate;
}

Candidate candidate_of(const Problem& problem, const MaxLoadSplit& split) {
  const Parts parts = parts_of(split);
  for (std::size_t part = 0; part < split.parts.size(); ++part) {
    if (!split.parts[part].on_processor) continue;
    return rejected(problem, parts,
                    concat("dnn-partitioning puts stage ", part,
                           " on a CPU of the file, which our evaluator does not know; name "
                           "a CLUSTER to split over its devices alone"));
  }
  if (std::optional<Candidate> best = best_candidate(problem, parts)) return *best;
  return rejected(problem, parts, refusal(problem, parts));
}

}  // namespace

SearchResult search_dnn_partitioning_noncontiguous(const Problem& problem,
                                                   const SearchControl& control) {
  const MaxLoadProblem question = max_load_problem(problem);
  ScatteredEffort effort{.most_downsets = most_downsets_of_max_load, .threads = control.threads};
  if (control.effort) effort.steps = effort.proof_steps = *control.effort;
  const ScatteredAnswer answer = split_without_contiguity(question, effort, control.stop);
  if (!answer.split) return nothing_fits(problem, question, answer.complete);
  const MaxLoadSplit& split = *answer.split;
  SearchResult result = foreign_result(
      candidate_of(problem, split),
      {.name = "max load", .value = split.load, .unit = "ms", .lower_bound = split.lower_bound},
      split.compared);
  result.interrupted = control.stop.stop_requested();
  return result;
}

}  // namespace stagecraft
