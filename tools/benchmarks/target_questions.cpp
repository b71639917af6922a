#include "tools/benchmarks/target_questions.hpp"

#include <algorithm>
#include <thread>

#include "planner/space/schedule_choices.hpp"
#include "planner/strategies.hpp"
#include "planner/strategies/aceso/aceso_search.hpp"
#include "planner/strategies/dapple/dapple.hpp"
#include "planner/strategies/dnn_partitioning/dnn_question.hpp"
#include "planner/strategies/dnn_partitioning/max_load.hpp"
#include "planner/strategies/dnn_partitioning/scattered_split.hpp"
#include "planner/strategies/pipedream/pipedream_problem.hpp"
#include "planner/strategies/piper/piper_split.hpp"
#include "profiles/importers/dnn_partitioning_graph.hpp"
#include "profiles/importers/pipedream_graph.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

constexpr double gibibyte = 1024.0 * 1024 * 1024;

Problem problem_of(const std::string& path, const std::string& cluster, std::int64_t batch) {
  LoadedProfile loaded = load_profile(path);
  Problem problem;
  problem.profile = std::move(loaded.profile);
  problem.source = {.path = loaded.path, .content = std::move(loaded.content)};
  problem.cluster = parse_cluster(cluster);
  problem.global_batch = batch;
  problem.microbatches = {1};
  problem.schedules = {{.name = "1f1b"}};
  return problem;
}

/// Any strategy on a problem, stopped after ten seconds, or when a gap that was asked for is
/// reached.
Solve by_strategy(const Target& target, const std::string& strategy, const Problem& problem) {
  constexpr int longest = 100;  // tenths of a second
  const double gap = target.gap < 1 ? target.gap : 0;
  return [=] {
    std::stop_source stop;
    const std::jthread timer([&stop](const std::stop_token& done) {
      for (int i = 0; i < longest && !done.stop_requested(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
      stop.request_stop();
    });
    const SearchResult result =
        find_strategy(strategy).search(problem, {.stop = stop.get_token(), .gap = gap});
    const Candidate& best = result.plans.front();
    if (best.objective) return Answer{best.objective->value, best.objective->lower_bound};
    return Answer{seconds(best.prediction->step), seconds(result.lower_bound)};
  };
}

/// What is asked where nobody says more than a batch.
Solve by_usual(const Target& target, const std::string& path, const std::string& cluster) {
  Problem problem = problem_of(path, cluster, static_cast<std::int64_t>(target.arguments[0]));
  problem.schedules = usual_schedule_choices(problem);
  problem.microbatch_per_copy = true;
  return by_strategy(target, "exact", problem);
}

MaxLoadProblem question_of_file(const Target& target, const std::string& path) {
  const DnnGraph graph = read_dnn_partitioning_graph(read_file(path), target.name);
  MaxLoadProblem problem = question_of(graph, dnn_layers(graph, target.name));
  problem.accelerators = graph.accelerators;
  problem.processors = graph.processors;
  problem.memory = graph.memory;
  return problem;
}

}  // namespace

Solve as_pipedream(const Target& target, const std::string& path) {
  std::vector<PipedreamLevel> levels;
  for (std::size_t i = 0; i < target.arguments.size(); i += 2) {
    levels.push_back({static_cast<int>(target.arguments[i]), target.arguments[i + 1]});
  }
  return [levels, problem = problem_of(path, "16xgeneric", 16)] {
    const Space space(problem);
    const PipedreamStates states = states_of(problem, space, 1, {"pipedream", "it", 6000});
    const auto plan = pipedream_plan(states, {}, levels, space.layers());
    // One level is searched exactly; of several nothing is proved.
    return Answer{plan->time, levels.size() == 1 ? plan->time : 0};
  };
}

Solve as_dapple(const Target& target, const std::string& path) {
  const DappleServers servers{.servers = static_cast<int>(target.arguments[0]),
                              .devices_each = static_cast<int>(target.arguments[1])};
  return [servers, problem = problem_of(path, "16xgeneric", 16)] {
    const PipedreamStates states = states_of(problem, Space(problem), 1, {"dapple", "it", 6000});
    const auto plan = dapple_plan(states, servers, {.scale = 16, .microbatches = 16}, false);
    return Answer{plan->latency, 0};
  };
}

Solve by_load(const Target& target, const std::string& path) {
  return [problem = question_of_file(target, path)] {
    const MaxLoadSplit split = split_by_max_load(problem, most_downsets_of_max_load, {}).value();
    return Answer{split.load, split.lower_bound};
  };
}

Solve by_load_noncontiguous(const Target& target, const std::string& path) {
  return [problem = question_of_file(target, path)] {
    const auto split = split_without_contiguity(problem, {}, {}).split;
    return Answer{split->load, split->lower_bound};
  };
}

Solve by_load_of_profile(const Target& target, const std::string& path) {
  const auto batch = static_cast<std::int64_t>(target.arguments[0]);
  return by_strategy(target, "dnn-partitioning", problem_of(path, "4xgeneric@1.25GB/s", batch));
}
Solve by_exact_nested(const Target& target, const std::string& path) {
  const auto batch = static_cast<std::int64_t>(target.arguments[0]);
  return by_strategy(target, "exact", problem_of(path, "4x4xgeneric@1.25GB/s,10GB/s", batch));
}
Solve by_usual_flat(const Target& target, const std::string& path) {
  return by_usual(target, path, "4xgeneric@1.25GB/s");
}
Solve by_usual_nested(const Target& target, const std::string& path) {
  return by_usual(target, path, "4x4xgeneric@1.25GB/s,10GB/s");
}

Solve as_piper(const Target& target, const std::string& path) {
  PiperGraph graph = read_piper_graph(read_file(path), target.name);
  graph.devices = static_cast<int>(target.arguments[0]);
  graph.microbatches = static_cast<int>(target.arguments[1]);
  graph.memory = target.arguments[2] * gibibyte;
  graph.bandwidth = 25 * gibibyte;
  return [graph] {
    const auto split = split_by_piper(graph, 1500, {});
    return Answer{split->time, split->lower_bound};
  };
}

Solve as_aceso(const Target& target, const std::string& path) {
  AcesoDatabase database = read_aceso_database(read_file(path), path);
  if (const int layers = static_cast<int>(target.arguments[2]); layers > 0) {
    database.chain = aceso_chain(database.family, static_cast<int>(database.names.size()), layers);
  }
  const int devices = static_cast<int>(target.arguments[0]);
  constexpr int devices_per_node = 8;
  const AcesoQuestion question{.machine = {.devices = devices,
                                           .devices_per_node = std::min(devices, devices_per_node),
                                           .memory = target.arguments[1]},
                               .global_batch = 1024,
                               .microbatches = {1, 2, 4, 8},
                               .degrees = {1, 2, 4, 8},
                               .most_stages = devices};
  return [database, question] {
    const AcesoAnswer answer = search_by_aceso(database, question, {});
    return Answer{answer.figures.time, answer.lower_bound};
  };
}

}  // namespace stagecraft
