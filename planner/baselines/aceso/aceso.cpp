// Aceso's cost model minimised (see aceso_search.hpp), on a table of its profile database with its
// exact figures, or on any profile.

#include <algorithm>
#include <numeric>

#include "planner/baselines/aceso/aceso_figures.hpp"
#include "planner/baselines/aceso/aceso_search.hpp"
#include "planner/baselines/baselines.hpp"
#include "planner/baselines/compatibility.hpp"
#include "planner/baselines/own_figures.hpp"
#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// The tables of MODEL's file, or what the profile says in their place.
AcesoDatabase database_of(const Problem& problem) {
  if (!looks_like_aceso(problem.source.content)) return aceso_figures(problem);
  AcesoDatabase database = read_aceso_database(problem.source.content, problem.source.path);
  if (database.between_devices.empty()) {
    throw Error(ErrorKind::input,
                "strategy aceso needs the bandwidths that p2p_intra_node.csv has, in the folder of "
                "the table",
                SourcePlace{problem.source.path, 0, 0});
  }
  return database;
}

AcesoQuestion question_of(const Problem& problem) {
  AcesoQuestion question;
  question.machine.devices = usable_devices(problem);
  question.machine.devices_per_node = aceso_devices_per_node(problem);
  question.machine.memory = usable_memory(problem) / aceso_mebibyte;
  question.global_batch = problem.global_batch;
  for (const std::int64_t size : problem.microbatches)
    question.microbatches.push_back(static_cast<int>(size));
  question.degrees = problem.tensor_parallel;
  question.may_replicate = !problem.straight;
  const int layers = static_cast<int>(problem.profile.model.layers.size());
  const int most = std::min(question.machine.devices, layers);
  question.most_stages = std::min(problem.max_stages.value_or(most), most);
  return question;
}

/// "1, 2 and 4".
std::string list(const std::vector<int>& values) {
  std::vector<std::string> words;
  for (const int value : values) words.push_back(std::to_string(value));
  return join_words(words);
}

SearchResult infeasible(const AcesoDatabase& database, AcesoQuestion question,
                        const Effort& effort) {
  NoStages why{.strategy = "aceso",
               .none = concat("no stages over all ", question.machine.devices, " devices"),
               .counts = "fit, as Aceso counts their memory",
               .memory = question.machine.memory * aceso_mebibyte,
               .otherwise = {}};
  question.machine.memory = unlimited_memory / aceso_mebibyte;
  if (!search_by_aceso(database, question, effort).plan) {
    why.otherwise = concat("Aceso gives each stage 1, 2, 4 … devices, which share a microbatch of ",
                           list(question.microbatches),
                           question.microbatches == std::vector{1} ? " sample" : " samples",
                           " in parts there are figures for, at tensor-parallel degrees ",
                           list(question.degrees),
                           question.may_replicate ? "" : " without replicas", ", over up to ",
                           question.most_stages, question.most_stages == 1 ? " stage" : " stages");
  }
  return no_stages(why);
}

/// Our stages recompute as a whole. One of which Aceso recomputes a part does so, or not at all.
std::vector<ForeignStage> stages_of(const AcesoPlan& plan, bool rounds_up) {
  std::vector<ForeignStage> stages;
  for (const AcesoStage& stage : plan.stages) {
    ForeignStage& foreign = stages.emplace_back();
    foreign.layers.resize(static_cast<std::size_t>(stage.end - stage.first));
    std::iota(foreign.layers.begin(), foreign.layers.end(), stage.first);
    foreign.replicas = stage.data_parallel;
    foreign.tensor_parallel = stage.tensor_parallel;
    const auto& recomputes = stage.recomputes;
    const auto count = std::count(recomputes.begin(), recomputes.end(), true);
    const bool is_whole = static_cast<std::size_t>(count) == recomputes.size();
    if (count > 0 && (rounds_up || is_whole)) foreign.recompute = Recompute::full;
  }
  return stages;
}

}  // namespace

SearchResult search_aceso(const Problem& problem, const SearchControl& control) {
  const AcesoDatabase database = database_of(problem);
  const AcesoQuestion question = question_of(problem);
  const Effort effort{.left = control.effort.value_or(no_limit.left), .stop = control.stop};
  const AcesoAnswer answer = search_by_aceso(database, question, effort);
  if (!answer.plan) {
    SearchResult result = infeasible(database, question, effort);
    result.interrupted = !answer.is_complete;
    if (result.interrupted) result.infeasible.reset();
    return result;
  }
  Problem same = problem;
  same.microbatches = {answer.plan->microbatch};
  const Objective objective{.name = "time per iteration",
                            .value = answer.figures.time,
                            .unit = "s",
                            .lower_bound = answer.lower_bound};
  const auto adopted = [&](bool rounds_up) {
    return foreign_result(same, "aceso", stages_of(*answer.plan, rounds_up), objective,
                          answer.judged);
  };
  SearchResult result = adopted(false);
  const std::optional<Prediction>& prediction = result.plans.front().prediction;
  if (prediction && !prediction->fits) result = adopted(true);
  result.interrupted = !answer.is_complete;
  return result;
}

}  // namespace stagecraft
