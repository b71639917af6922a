#include "planner/baselines/piper/piper_split.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "planner/space/downsets.hpp"
#include "planner/strategies.hpp"
#include "profiles/index.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/cases.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

PiperChoice random_choice(Random& random, double parameters) {
  return {.name = "plain",
          .time = static_cast<double>(random.between(0, 20)),
          .parameters = parameters,
          .memory_per_microbatch = static_cast<double>(random.between(0, 6)),
          .memory_fixed = static_cast<double>(random.between(0, 6)),
          .sync_in = {},
          .sync_out = {}};
}

PiperNode random_piper_node(Random& random, int degrees) {
  PiperNode node;
  for (int degree = 1; degree <= degrees; ++degree) {
    if (degree > 1 && random.chance(20)) continue;
    std::vector<PiperChoice>& choices = node.choices[degree];
    choices.push_back(random_choice(random, random.between(0, 9)));
    if (random.chance(40)) continue;
    PiperChoice slow = random_choice(random, choices[0].parameters);
    if (random.chance(10)) slow.parameters += 3;
    slow.name = "recomputing";
    slow.time = choices[0].time + random.between(0, 5);
    slow.memory_per_microbatch /= 2;
    choices.push_back(slow);
  }
  return node;
}

PiperGraph random_graph(Random& random, int most_nodes) {
  PiperGraph graph;
  const int nodes = random.between(1, most_nodes);
  const int degrees = random.between(1, 2);
  const int percent = random.between(20, 80);
  for (int node = 0; node < nodes; ++node) {
    graph.nodes.push_back(random_piper_node(random, degrees));
    for (int from = 0; from < node; ++from) {
      if (random.chance(percent))
        graph.edges.push_back({from, node, static_cast<double>(random.between(0, 5))});
    }
  }
  for (const PiperEdge& edge : graph.edges) {
    for (auto& [degree, choices] : graph.nodes[index(edge.from)].choices) {
      for (PiperChoice& choice : choices) choice.sync_out[edge.to] = random.between(0, 2);
    }
    for (auto& [degree, choices] : graph.nodes[index(edge.to)].choices) {
      for (PiperChoice& choice : choices) choice.sync_in[edge.from] = random.between(0, 2);
    }
  }
  graph.devices = random.between(1, 5);
  graph.microbatches = random.between(1, 6);
  graph.bandwidth = random.between(1, 4);
  graph.memory = random.chance(30) ? 1000 : random.between(5, 60);
  return graph;
}

Dag dag_of(const PiperGraph& graph) {
  Dag dag{.nodes = static_cast<int>(graph.nodes.size()), .edges = {}};
  for (const PiperEdge& edge : graph.edges) dag.edges.push_back({edge.from, edge.to});
  return dag;
}

/// Every chain of downsets with every degree and choice; stages are chosen from the last one on.
class BruteForce {
 public:
  explicit BruteForce(const PiperGraph& graph)
      : graph_(graph), lattice_(*downset_lattice(dag_of(graph), 1 << 20)) {}

  /// Least of the slowest stage before downset `end`; negative if nothing fits.
  double least(int end, int devices, int sum) const {
    if (end == 0) return 0;
    double best = -1;
    for (int begin = 0; begin < end; ++begin) {
      if ((lattice_.set(begin)[0] & ~lattice_.set(end)[0]) != 0) continue;
      for (int replicas = 1; replicas <= devices; ++replicas) {
        const bool divides = graph_.microbatches % replicas == 0;
        if (!divides || sum + replicas > graph_.microbatches) continue;
        for (int degree = 1; degree * replicas <= devices && degree <= 2; ++degree) {
          const double time = stage_time(begin, end, replicas, degree, sum + replicas);
          if (time < 0) continue;
          const double rest = least(begin, devices - degree * replicas, sum + replicas);
          if (rest < 0) continue;
          const double slowest = std::max(rest, time);
          if (best < 0 || slowest < best) best = slowest;
        }
      }
    }
    return best;
  }

  int full() const { return lattice_.size() - 1; }

 private:
  double stage_time(int begin, int end, int replicas, int degree, int sum) const {
    PiperStage stage{.nodes = lattice_.difference(begin, end),
                     .data_parallel = replicas,
                     .tensor_parallel = degree,
                     .in_flight = (sum + replicas - 1) / replicas};
    for (const int node : stage.nodes) {
      if (!graph_.nodes[index(node)].choices.contains(degree)) return -1;
    }
    double best = -1;
    for (unsigned slow = 0; slow < 1U << stage.nodes.size(); ++slow) {
      stage.choices.clear();
      bool exists = true;
      for (std::size_t i = 0; i < stage.nodes.size(); ++i) {
        const int choice = static_cast<int>(slow >> i & 1U);
        const auto& choices = graph_.nodes[index(stage.nodes[i])].choices.at(degree);
        exists = exists && index(choice) < choices.size();
        stage.choices.push_back(choice);
      }
      if (!exists) continue;
      measure(graph_, stage);
      if (stage.memory <= graph_.memory && (best < 0 || stage.time < best)) best = stage.time;
    }
    return best;
  }

  const PiperGraph& graph_;
  Lattice lattice_;
};

void check_split(const PiperGraph& graph, const PiperSplit& split) {
  std::vector<int> stage_of(graph.nodes.size(), -1);
  int devices = 0;
  int sum = 0;
  double slowest = 0;
  for (std::size_t s = split.stages.size(); s > 0; --s) {
    PiperStage stage = split.stages[s - 1];
    for (const int node : stage.nodes) {
      REQUIRE(stage_of[index(node)] == -1);
      stage_of[index(node)] = static_cast<int>(s) - 1;
    }
    REQUIRE(graph.microbatches % stage.data_parallel == 0);
    sum += stage.data_parallel;
    devices += stage.data_parallel * stage.tensor_parallel;
    REQUIRE(stage.in_flight == (sum + stage.data_parallel - 1) / stage.data_parallel);
    measure(graph, stage);
    REQUIRE(stage.memory <= graph.memory);
    slowest = std::max(slowest, stage.time);
  }
  REQUIRE(std::count(stage_of.begin(), stage_of.end(), -1) == 0);
  for (const PiperEdge& edge : graph.edges)
    REQUIRE(stage_of[index(edge.from)] <= stage_of[index(edge.to)]);
  REQUIRE(devices <= graph.devices);
  REQUIRE(sum <= graph.microbatches);
  REQUIRE(split.time == slowest);
}

/// The same graph with its nodes in another order.
PiperGraph shuffled(const PiperGraph& graph, Random& random) {
  std::vector<int> number(graph.nodes.size());
  std::iota(number.begin(), number.end(), 0);
  for (int i = static_cast<int>(number.size()); i > 1; --i) {
    std::swap(number[index(i - 1)], number[index(random.between(0, i - 1))]);
  }
  const auto moved = [&](const std::map<int, double>& bytes) {
    std::map<int, double> result;
    for (const auto& [node, value] : bytes) result[number[index(node)]] = value;
    return result;
  };
  PiperGraph result = graph;
  for (std::size_t n = 0; n < number.size(); ++n) {
    PiperNode& node = result.nodes[index(number[n])];
    node = graph.nodes[n];
    for (auto& [degree, choices] : node.choices) {
      for (PiperChoice& choice : choices) {
        choice.sync_in = moved(choice.sync_in);
        choice.sync_out = moved(choice.sync_out);
      }
    }
  }
  for (PiperEdge& edge : result.edges)
    edge = {number[index(edge.from)], number[index(edge.to)], edge.bytes};
  std::reverse(result.edges.begin(), result.edges.end());
  return result;
}

constexpr std::int64_t no_limit = 1 << 20;

}  // namespace

TEST_CASE("no split of Piper's is faster than the one found") {
  Random random(13);
  int infeasible = 0;
  for (int round = 0; round < (is_watched ? 200 : 1200); ++round) {
    const PiperGraph graph = random_graph(random, 4);
    const BruteForce brute_force(graph);
    const double least = brute_force.least(brute_force.full(), graph.devices, 0);
    const std::optional<PiperSplit> split = split_by_piper(graph, no_limit, {});
    INFO(round);
    REQUIRE(split.has_value() == (least >= 0));
    if (!split) {
      ++infeasible;
      continue;
    }
    REQUIRE(split->time == Approx(least).epsilon(1e-9));
    REQUIRE(split->lower_bound == split->time);
    check_split(graph, *split);
  }
  CHECK(infeasible > (is_watched ? 5 : 30));
  CHECK(infeasible < (is_watched ? 150 : 800));
}

TEST_CASE("Piper's objective does not depend on how nodes are numbered") {
  Random random(17);
  for (int round = 0; round < 600; ++round) {
    const PiperGraph graph = random_graph(random, 7);
    const std::optional<PiperSplit> one = split_by_piper(graph, no_limit, {});
    const std::optional<PiperSplit> other = split_by_piper(shuffled(graph, random), no_limit, {});
    REQUIRE(one.has_value() == other.has_value());
    if (one) REQUIRE(one->time == Approx(other->time).epsilon(1e-9));
  }
}

TEST_CASE("along one order of the nodes, Piper's bound is honest") {
  Random random(19);
  for (int round = 0; round < 600; ++round) {
    const PiperGraph graph = random_graph(random, 7);
    const std::optional<PiperSplit> rough = split_by_piper(graph, 1, {});
    if (!rough) continue;
    const std::optional<PiperSplit> exact = split_by_piper(graph, no_limit, {});
    REQUIRE(exact);
    REQUIRE(rough->time >= exact->time * (1 - 1e-9));
    REQUIRE(rough->lower_bound <= exact->time * (1 + 1e-9));
    check_split(graph, *rough);
  }
}

TEST_CASE("Piper's published objectives are reached or beaten, and proved") {
  const std::string data = shared_folder() + "/data/";
  if (!std::filesystem::exists(data + "piper")) SKIP("no published data at " + data);
  const auto graph_for = [&](const Json& arguments, const std::string& file) {
    PiperGraph graph = read_piper_graph(read_file(file), file);
    graph.memory = arguments["maxMemoryPerDevice"].number();
    graph.devices = arguments["maxDevices"].small_integer(1, 10'000);
    graph.microbatches = arguments["mbsInBatch"].small_integer(1, 100'000);
    graph.bandwidth = arguments["bandwidth"].number();
    return graph;
  };
  for (const std::string name :
       {"bert32_8GiB_k8_N1920", "bert32_8GiB_k64_N1920", "bert32_80GiB_k2048_N1920"}) {
    INFO(name);
    const Json published = Json::read(data + "reference/piper_" + name + "_full.json");
    const PiperGraph graph = graph_for(published["arguments"], data + "piper/bert32a100.json");
    const std::optional<PiperSplit> split = split_by_piper(graph, no_limit, {});
    REQUIRE(split);
    CHECK(split->time <= published["objective_TPS"].number() * (1 + 1e-9));
    CHECK(split->lower_bound == split->time);
    CHECK(split->downsets == 43);
    CHECK(split->parts == 890);
    check_split(graph, *split);
  }
}

TEST_CASE("Piper's tensor-parallel stages become groups of devices") {
  Profile profile = profile_of(std::vector<LayerCost>(
      2, layer_cost(std::chrono::milliseconds(3), std::chrono::milliseconds(6))));
  ProfileEntry half = profile.entries.front();
  half.setting.tensor_parallel = 2;
  for (LayerCost& cost : half.layers)
    cost = layer_cost(std::chrono::milliseconds(1), std::chrono::milliseconds(3));
  profile.entries.push_back(half);
  Problem problem = problem_of(profile, cluster_of({{2, {}}}), 1, {1});
  problem.tensor_parallel = {1, 2};
  const SearchResult result = search_piper(problem, {});
  REQUIRE(result.plans.size() == 1);
  CHECK(result.plans[0].objective->value == Approx(0.008));
  CHECK(result.plans[0].plan.stages[0].devices == std::vector<std::vector<int>>{{0, 1}});
  CHECK(result.plans[0].prediction);
  problem.tensor_parallel = {1};
  // With one microbatch the replicas sum to one at most: a single stage.
  CHECK(search_piper(problem, {}).plans[0].objective->value == Approx(0.018));
  problem.global_batch = 2;
  CHECK(search_piper(problem, {}).plans[0].objective->value == Approx(0.009));
}

TEST_CASE("where Piper's stages do not fit, the reason is told") {
  LayerCost cost = layer_cost(std::chrono::milliseconds(1), std::chrono::milliseconds(2));
  cost.parameters = 100;
  const Problem problem = problem_of(profile_of({cost, cost}), cluster_of({{2, {}}}, 50), 4, {1});
  const SearchResult result = search_piper(problem, {});
  CHECK(result.plans.empty());
  REQUIRE(result.infeasible);
  CHECK_THAT(result.infeasible->reason, ContainsSubstring("no split over 2 devices"));
}
