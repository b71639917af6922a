#include "planner/baselines/dnn_partitioning/max_load.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "planner/strategies.hpp"
#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/baselines/max_load_cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Every chain of downsets, without tables or bounds.
class BruteForce {
 public:
  explicit BruteForce(const MaxLoadProblem& problem) : problem_(problem) {
    const Dag dag{.nodes = static_cast<int>(problem.nodes.size()), .edges = problem.edges};
    lattice_ = *downset_lattice(dag, 1 << 20);
  }

  /// The least maximum over what is beyond the set; negative if nothing fits.
  double least(int set, int accelerators, int processors) const {
    if (set == lattice_.size() - 1) return 0;
    double best = -1;
    for (int next = set + 1; next < lattice_.size(); ++next) {
      if ((lattice_.set(set)[0] & ~lattice_.set(next)[0]) != 0) continue;
      const std::vector<int> nodes = lattice_.difference(set, next);
      for (const bool on_processor : {false, true}) {
        const int left = on_processor ? processors : accelerators;
        if (left == 0 || !fits(problem_, nodes, on_processor)) continue;
        const double rest = on_processor ? least(next, accelerators, processors - 1)
                                         : least(next, accelerators - 1, processors);
        if (rest < 0) continue;
        const double load = std::max(rest, load_of(problem_, nodes, on_processor));
        if (best < 0 || load < best) best = load;
      }
    }
    return best;
  }

 private:
  const MaxLoadProblem& problem_;
  Lattice lattice_;
};

/// Each node once, contiguous, as many devices as there are, loads and sizes by definition.
void check_split(const MaxLoadProblem& problem, const MaxLoadSplit& split) {
  std::vector<int> part_of(problem.nodes.size(), -1);
  int processors = 0;
  double load = 0;
  for (std::size_t part = 0; part < split.parts.size(); ++part) {
    const MaxLoadPart& it = split.parts[part];
    for (const int node : it.members) {
      REQUIRE(part_of[static_cast<std::size_t>(node)] == -1);
      part_of[static_cast<std::size_t>(node)] = static_cast<int>(part);
    }
    processors += it.on_processor ? 1 : 0;
    load = std::max(load, load_of(problem, it.members, it.on_processor));
    REQUIRE(fits(problem, it.members, it.on_processor));
  }
  REQUIRE(std::count(part_of.begin(), part_of.end(), -1) == 0);
  REQUIRE(processors <= problem.processors);
  REQUIRE(static_cast<int>(split.parts.size()) - processors <= problem.accelerators);
  for (const Edge& edge : problem.edges) {
    REQUIRE(part_of[static_cast<std::size_t>(edge.from)] <=
            part_of[static_cast<std::size_t>(edge.to)]);
  }
  REQUIRE(split.load == Approx(load).epsilon(1e-12));
}

/// The same problem with its nodes renumbered.
MaxLoadProblem shuffled(const MaxLoadProblem& problem, Random& random) {
  std::vector<int> number(problem.nodes.size());
  std::iota(number.begin(), number.end(), 0);
  for (std::size_t i = number.size(); i > 1; --i) {
    std::swap(number[i - 1],
              number[static_cast<std::size_t>(random.between(0, static_cast<int>(i) - 1))]);
  }
  const auto moved = [&](int node) { return number[static_cast<std::size_t>(node)]; };
  MaxLoadProblem result = problem;
  for (std::size_t node = 0; node < number.size(); ++node) {
    MaxLoadNode& place = result.nodes[static_cast<std::size_t>(number[node])];
    place = problem.nodes[node];
    place.members = {number[node]};
  }
  for (Edge& edge : result.edges) edge = {moved(edge.from), moved(edge.to)};
  for (MaxLoadTensor& tensor : result.tensors) {
    for (int& node : tensor.nodes) node = moved(node);
  }
  return result;
}

constexpr std::int64_t no_limit = 1 << 20;

}  // namespace

TEST_CASE("no contiguous split has a smaller largest load than the one found", "[seconds]") {
  Random random(3);
  int infeasible = 0;
  for (int round = 0; round < 1500; ++round) {
    const MaxLoadProblem problem = random_split(random, 6);
    const double least = BruteForce(problem).least(0, problem.accelerators, problem.processors);
    const std::optional<MaxLoadSplit> split = split_by_max_load(problem, no_limit, {});
    INFO(round);
    REQUIRE(split.has_value() == (least >= 0));
    if (!split) {
      ++infeasible;
      continue;
    }
    REQUIRE(split->load == Approx(least).epsilon(1e-9));
    REQUIRE(split->lower_bound == split->load);
    check_split(problem, *split);
  }
  CHECK(infeasible > 30);
  CHECK(infeasible < 1000);
}

TEST_CASE("the largest load does not depend on how nodes are numbered") {
  Random random(5);
  for (int round = 0; round < 600; ++round) {
    const MaxLoadProblem problem = random_split(random, 9);
    const std::optional<MaxLoadSplit> one = split_by_max_load(problem, no_limit, {});
    const std::optional<MaxLoadSplit> other =
        split_by_max_load(shuffled(problem, random), no_limit, {});
    REQUIRE(one.has_value() == other.has_value());
    if (one) REQUIRE(one->load == Approx(other->load).epsilon(1e-9));
  }
}

TEST_CASE("where there are too many downsets, orders of the nodes are split, with an honest bound",
          "[seconds]") {
  Random random(9);
  for (int round = 0; round < 600; ++round) {
    const MaxLoadProblem problem = random_split(random, 9);
    const std::optional<MaxLoadSplit> exact = split_by_max_load(problem, no_limit, {});
    const std::optional<MaxLoadSplit> rough = split_by_max_load(problem, 1, {});
    if (!rough) continue;
    REQUIRE(exact);
    REQUIRE(rough->load >= exact->load * (1 - 1e-12));
    REQUIRE(rough->lower_bound <= exact->load * (1 + 1e-12));
    check_split(problem, *rough);
  }
}

TEST_CASE("nodes that cost nothing join the one they talk to") {
  // 0 -> 1 -> 2, and 3 hangs on 1; 0 and 3 are free.
  MaxLoadProblem problem{.nodes = {{.members = {0}},
                                   {.accelerator = 2, .members = {1}},
                                   {.accelerator = 3, .members = {2}},
                                   {.members = {3}}},
                         .edges = {{0, 1}, {1, 2}, {1, 3}},
                         .tensors = {{4, {0, 1}}, {1, {1, 2, 3}}},
                         .accelerators = 2,
                         .memory = 10};
  const MaxLoadProblem small = folded(problem);
  REQUIRE(small.nodes.size() == 2);
  CHECK(small.nodes[0].members == std::vector<int>{1, 0, 3});
  CHECK(small.edges == std::vector<Edge>{{0, 1}});
  const std::optional<MaxLoadSplit> split = split_by_max_load(problem, no_limit, {});
  REQUIRE(split);
  CHECK(split->load == 4);
  // A size that could be scarce keeps a node apart.
  problem.nodes[3].size = 6;
  problem.nodes[2].size = 6;
  CHECK(folded(problem).nodes.size() == 3);
}

TEST_CASE("dnn-partitioning's published objectives are reached on its own inputs", "[seconds]") {
  const std::string data = shared_folder() + "/data/";
  if (!std::filesystem::exists(data + "dnn-partitioning")) SKIP("no published data at " + data);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"LayerGraphs/resnet50_inference", "layer_resnet50_inference"},
      {"LayerGraphs/resnet50_training", "layer_resnet50_training"},
      {"OperatorGraphs/bert_l-3_inference", "op_bert_l-3_inference"}};
  for (const auto& [input, reference] : cases) {
    INFO(input);
    const std::string path = data + "dnn-partitioning/" + input + ".json";
    const Json published = Json::read(data + "reference/dnn_" + reference + "_dp.json");
    const LoadedProfile loaded = load_profile(path);
    Problem problem = problem_of(
        loaded.profile, parse_cluster(cluster_expression(*loaded.profile.devices)), 1, {1});
    problem.source = {.path = path, .content = loaded.content};
    const SearchResult result = search_dnn_partitioning(problem, {});
    REQUIRE(result.plans.size() == 1);
    CHECK(result.proved_optimal);
    REQUIRE(result.plans[0].objective);
    CHECK(result.plans[0].objective->value ==
          Approx(published["objective_maxload"].number()).epsilon(1e-9));
    // Two of the three put a few nodes on the CPU.
    CHECK(result.plans[0].prediction.has_value() == result.plans[0].rejected.empty());
    problem.profile.devices->processors = 0;
    const SearchResult without = search_dnn_partitioning(problem, {});
    REQUIRE(without.plans.size() == 1);
    CHECK(without.plans[0].rejected.empty());
    CHECK(without.plans[0].objective->value >= result.plans[0].objective->value);
  }
}

TEST_CASE("a split that does not fit is infeasible, with the reason") {
  LayerCost cost = layer_cost(std::chrono::milliseconds(1), std::chrono::milliseconds(2));
  cost.parameters = 100;
  const Problem problem = problem_of(profile_of({cost, cost}), cluster_of({{2, {}}}, 50), 1, {1});
  const SearchResult result = search_dnn_partitioning(problem, {});
  CHECK(result.plans.empty());
  REQUIRE(result.infeasible);
  CHECK_THAT(result.infeasible->reason, ContainsSubstring("no contiguous split over 2 devices"));
}
