#include "tools/benchmarks/target_questions.hpp"

#include <algorithm>
#include <functional>
#include <thread>

#include "planner/analysis/shared.hpp"
#include "planner/baselines/aceso/aceso_search.hpp"
#include "planner/baselines/compatibility.hpp"
#include "planner/baselines/dapple/dapple.hpp"
#include "planner/baselines/dnn_partitioning/dnn_question.hpp"
#include "planner/baselines/dnn_partitioning/max_load.hpp"
#include "planner/baselines/dnn_partitioning/scattered_split.hpp"
#include "planner/baselines/pipedream/pipedream_problem.hpp"
#include "planner/baselines/piper/piper_split.hpp"
#include "planner/costs/predict.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"
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

using AnySearch = std::function<SearchResult(const Problem&, const SearchControl&)>;

/// Any search of a problem, stopped when this part of the target's time is over, or when a gap that
/// was asked for is reached.
SearchResult search_in_time(const TargetRow& target, const AnySearch& search,
                            const Problem& problem, double part = 0.9) {
  const int longest = static_cast<int>(target.seconds * part * 100);  // hundredths of a second
  std::stop_source stop;
  const std::jthread timer([&stop, longest](const std::stop_token& done) {
    for (int i = 0; i < longest && !done.stop_requested(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    stop.request_stop();
  });
  const double gap = target.gap < 1 ? target.gap : 0;
  return search(problem, {.stop = stop.get_token(), .gap = gap});
}

Solve by_strategy(const TargetRow& target, const std::string& strategy, const Problem& problem) {
  return [=] {
    const SearchResult result = search_in_time(target, find_strategy(strategy).search, problem);
    const Candidate& best = result.plans.front();
    if (best.objective) return Answer{best.objective->value, best.objective->lower_bound};
    return Answer{seconds(best.prediction->step), seconds(result.lower_bound)};
  };
}

/// What is asked where nobody says more than a batch.
Solve by_usual(const TargetRow& target, const std::string& path, const std::string& cluster) {
  Problem problem = problem_of(path, cluster, static_cast<std::int64_t>(target.arguments[0]));
  problem.schedules = usual_schedule_choices(problem);
  problem.microbatch_per_copy = true;
  return by_strategy(target, "exact", problem);
}

MaxLoadProblem question_of_file(const TargetRow& target, const std::string& path) {
  const DnnGraph graph = read_dnn_partitioning_graph(read_file(path), target.name);
  MaxLoadProblem problem = question_of(graph, dnn_layers(graph, target.name));
  problem.accelerators = graph.accelerators;
  problem.processors = graph.processors;
  problem.memory = graph.memory;
  return problem;
}

/// "4x4xgeneric@1.25GB/s,10GB/s": innermost level first in the arguments.
Problem problem_on_levels(const TargetRow& target, const std::string& path, std::int64_t batch) {
  const std::vector<double>& levels = target.arguments;
  return problem_of(path,
                    concat(levels[2], "x", levels[0], "xgeneric@", levels[3] / 1e9, "GB/s,",
                           levels[1] / 1e9, "GB/s"),
                    batch);
}

/// What an iteration takes.
using Measure = Duration (*)(const Problem& problem, const Plan& plan);

Duration step_of(const Problem& problem, const Plan& plan) {
  return predict(plan, in_plan_order(problem.profile, plan), problem.cluster).step;
}

Duration step_sharing(const Problem& problem, const Plan& plan) {
  return step_with_shared_links(problem, plan, {});
}

SearchResult search_sharing(const Problem& problem, const SearchControl& control) {
  return search_with_shared_links(search_exact, problem, control, {});
}

std::map<std::string, double> steps_of_pipedream(const TargetRow& target, const Problem& problem,
                                                 Measure measure) {
  const PipedreamLevel inside{static_cast<int>(target.arguments[0]), target.arguments[1]};
  const PipedreamLevel between{static_cast<int>(target.arguments[2]), target.arguments[3]};
  const int devices = inside.machines * between.machines;
  const std::map<std::string, std::vector<PipedreamLevel>> networks{
      {"nested", {inside, between}},
      {"flat", {{devices, between.bandwidth / inside.machines}}},
      {"flat_alone", {{devices, between.bandwidth}}}};
  const Space space(problem);
  const PipedreamStates states = states_of(problem, space, 1, {"pipedream", "it", 6000});
  std::map<std::string, double> steps;
  for (const auto& [name, levels] : networks) {
    const auto plan = pipedream_plan(states, {}, levels, space.layers());
    steps[name] = seconds(measure(problem, adopt(problem, name, plan->stages).plan));
  }
  return steps;
}

Solve beside_pipedream(const TargetRow& target, const std::string& path, const AnySearch& search,
                       Measure measure) {
  constexpr int batch = 128;
  const Problem problem = problem_on_levels(target, path, batch);
  return [=, others = steps_of_pipedream(target, problem, measure)] {
    // Judging what was found takes time, too.
    const SearchResult result = search_in_time(target, search, problem, 0.75);
    return Answer{seconds(measure(problem, result.plans.front().plan)), seconds(result.lower_bound),
                  others};
  };
}

PiperGraph piper_question(const TargetRow& target, const std::string& path) {
  PiperGraph graph = read_piper_graph(read_file(path), target.name);
  graph.devices = static_cast<int>(target.arguments[0]);
  graph.microbatches = static_cast<int>(target.arguments[1]);
  graph.memory = target.arguments[2] * gibibyte;
  graph.bandwidth = 25 * gibibyte;
  return graph;
}

/// One more node like `like` on the edge between two nodes. It reads what the second one reads.
void insert_between(PiperGraph& graph, int before, int after, int like) {
  const auto nodes = [&graph](int n) -> PiperNode& {
    return graph.nodes[static_cast<std::size_t>(n)];
  };
  const int added = static_cast<int>(graph.nodes.size());
  graph.nodes.push_back(nodes(like));
  nodes(added).name += concat(" ", added);
  for (auto& [degree, choices] : nodes(added).choices) {
    for (std::size_t c = 0; c < choices.size(); ++c) {
      PiperChoice& left = nodes(before).choices.at(degree)[c];
      PiperChoice& right = nodes(after).choices.at(degree)[c];
      choices[c].sync_in = right.sync_in;
      choices[c].sync_out = {{after, left.sync_out.at(after)}};
      right.sync_in[added] = right.sync_in.at(before);
      right.sync_in.erase(before);
    }
  }
  const std::vector<PiperEdge> edges = graph.edges;
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const PiperEdge& edge = edges[e];
    if (edge.to != after) continue;
    graph.edges.push_back({edge.from, added, edge.bytes});
    if (edge.from == before) graph.edges[e].from = added;
    for (auto& [degree, choices] : nodes(edge.from).choices) {
      for (PiperChoice& choice : choices) {
        choice.sync_out[added] = choice.sync_out.at(after);
        if (edge.from == before) choice.sync_out.erase(after);
      }
    }
  }
}

/// The same with so many times its chain of nodes of this name. Further ones go before the last.
PiperGraph with_layers_repeated(PiperGraph graph, const std::string& name, int times) {
  std::vector<int> layers;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].name.starts_with(name)) layers.push_back(static_cast<int>(n));
  }
  const int last = layers.back();
  int before = layers[layers.size() - 2];
  std::rotate(layers.begin(), layers.end() - 1, layers.end());
  for (int time = 1; time < times; ++time) {
    for (const int like : layers) {
      insert_between(graph, before, last, like);
      before = static_cast<int>(graph.nodes.size()) - 1;
    }
  }
  return graph;
}

Solve split_by_piper_of(const PiperGraph& graph) {
  return [graph] {
    const auto split = split_by_piper(graph, 1500, {});
    return Answer{split->time, split->lower_bound};
  };
}

}  // namespace

Solve as_pipedream(const TargetRow& target, const std::string& path) {
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

Solve as_dapple(const TargetRow& target, const std::string& path) {
  const DappleServers servers{.servers = static_cast<int>(target.arguments[0]),
                              .devices_each = static_cast<int>(target.arguments[1])};
  return [servers, problem = problem_of(path, "16xgeneric", 16)] {
    const PipedreamStates states = states_of(problem, Space(problem), 1, {"dapple", "it", 6000});
    const auto plan = dapple_plan(states, servers, {.scale = 16, .microbatches = 16}, false);
    return Answer{plan->latency, 0};
  };
}

Solve by_exact_beside_pipedream(const TargetRow& target, const std::string& path) {
  return beside_pipedream(target, path, search_exact, step_of);
}
Solve by_exact_beside_pipedream_shared(const TargetRow& target, const std::string& path) {
  return beside_pipedream(target, path, search_sharing, step_sharing);
}

Solve by_load(const TargetRow& target, const std::string& path) {
  return [problem = question_of_file(target, path)] {
    const MaxLoadSplit split = split_by_max_load(problem, most_downsets_of_max_load, {}).value();
    return Answer{split.load, split.lower_bound};
  };
}

Solve by_load_noncontiguous(const TargetRow& target, const std::string& path) {
  return [problem = question_of_file(target, path)] {
    const auto split = split_without_contiguity(problem, {}, {}).split;
    return Answer{split->load, split->lower_bound};
  };
}

Solve by_load_of_profile(const TargetRow& target, const std::string& path) {
  const auto batch = static_cast<std::int64_t>(target.arguments[0]);
  return by_strategy(target, "dnn-partitioning", problem_of(path, "4xgeneric@1.25GB/s", batch));
}
Solve by_load_along_orders(const TargetRow& target, const std::string& path) {
  const auto batch = static_cast<std::int64_t>(target.arguments[0]);
  const MaxLoadProblem problem = max_load_problem(problem_of(path, "4xgeneric@1.25GB/s", batch));
  const double least = split_by_max_load(problem, most_downsets_of_max_load, {})->lower_bound;
  std::stop_source stop;
  stop.request_stop();
  return [problem, least, stop = stop.get_token()] {
    return Answer{split_by_max_load(problem, 1, stop)->load, least};
  };
}
Solve by_exact_nested(const TargetRow& target, const std::string& path) {
  const auto batch = static_cast<std::int64_t>(target.arguments[0]);
  return by_strategy(target, "exact", problem_of(path, "4x4xgeneric@1.25GB/s,10GB/s", batch));
}
Solve by_usual_flat(const TargetRow& target, const std::string& path) {
  return by_usual(target, path, "4xgeneric@1.25GB/s");
}
Solve by_usual_nested(const TargetRow& target, const std::string& path) {
  return by_usual(target, path, "4x4xgeneric@1.25GB/s,10GB/s");
}

Solve as_piper(const TargetRow& target, const std::string& path) {
  return split_by_piper_of(piper_question(target, path));
}
Solve as_piper_bert96(const TargetRow& target, const std::string& path) {
  return split_by_piper_of(
      with_layers_repeated(piper_question(target, path), "ParallelTransformerLayer", 3));
}

Solve as_aceso(const TargetRow& target, const std::string& path) {
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
    const AcesoAnswer answer = search_by_aceso(database, question);
    return Answer{answer.figures.time, answer.lower_bound};
  };
}

}  // namespace stagecraft
