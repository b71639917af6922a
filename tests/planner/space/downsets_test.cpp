#include "planner/space/downsets.hpp"

#include <filesystem>
#include <set>

#include "profiles/importers/pipedream_graph.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Dag random_dag(Random& random, int most_nodes) {
  Dag dag{.nodes = random.between(0, most_nodes), .edges = {}};
  const int percent = random.between(0, 60);
  for (int to = 1; to < dag.nodes; ++to) {
    for (int from = 0; from < to; ++from) {
      if (random.chance(percent)) dag.edges.push_back({from, to});
    }
  }
  return dag;
}

/// The sets of nodes, as bits, that hold all inputs of what they hold.
std::set<std::uint64_t> downsets_by_definition(const Dag& dag) {
  std::set<std::uint64_t> result;
  for (std::uint64_t set = 0; set < std::uint64_t{1} << dag.nodes; ++set) {
    bool closed = true;
    for (const Edge& edge : dag.edges) {
      if ((set >> edge.to & 1U) != 0 && (set >> edge.from & 1U) == 0) closed = false;
    }
    if (closed) result.insert(set);
  }
  return result;
}

/// PipeDream's profile without its `Input` nodes.
Dag published_graph(const std::string& model) {
  const std::string file = shared_folder() + "/data/pipedream/" + model + "/graph.txt";
  const PipedreamGraph graph = read_pipedream_graph(read_file(file), file);
  std::vector<int> number(graph.nodes.size(), -1);
  Dag dag;
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    if (!graph.nodes[node].description.starts_with("Input")) number[node] = dag.nodes++;
  }
  for (const Edge& edge : graph.edges) {
    const int from = number[static_cast<std::size_t>(edge.from)];
    const int to = number[static_cast<std::size_t>(edge.to)];
    if (from >= 0 && to >= 0) dag.edges.push_back({from, to});
  }
  return dag;
}

}  // namespace

TEST_CASE("the lattice holds every downset once, and every step between two") {
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    const Dag dag = random_dag(random, 9);
    const std::set<std::uint64_t> expected = downsets_by_definition(dag);
    const std::optional<Lattice> lattice = downset_lattice(dag, 1 << 20);
    REQUIRE(lattice);
    std::set<std::uint64_t> found;
    std::size_t steps = 0;
    for (int i = 0; i < lattice->size(); ++i) {
      const std::uint64_t set = lattice->set(i)[0];
      found.insert(set);
      for (const LatticeStep& step : lattice->steps_from(i)) {
        CHECK_FALSE(lattice->contains(i, step.node));
        CHECK(lattice->set(step.to)[0] == (set | std::uint64_t{1} << step.node));
        CHECK(lattice->difference(i, step.to) == std::vector<int>{step.node});
      }
      for (int node = 0; node < dag.nodes; ++node) {
        const std::uint64_t larger = set | std::uint64_t{1} << node;
        if (larger != set && expected.contains(larger)) ++steps;
      }
    }
    CHECK(found == expected);
    CHECK(lattice->size() == static_cast<int>(expected.size()));
    CHECK(lattice->steps.size() == steps);
    CHECK(lattice->set(0)[0] == 0);
    CHECK(lattice->set(lattice->size() - 1)[0] == (std::uint64_t{1} << dag.nodes) - 1);
    CHECK(count_downsets(dag, 1 << 20) == lattice->size());
  }
}

TEST_CASE("chains have a downset per cut, antichains one per subset, and limits hold") {
  Dag chain{.nodes = 300, .edges = {}};
  for (int node = 1; node < chain.nodes; ++node) chain.edges.push_back({node - 1, node});
  CHECK(count_downsets(chain, 301) == 301);
  CHECK_FALSE(count_downsets(chain, 300));
  const Dag antichain{.nodes = 12, .edges = {}};
  CHECK(count_downsets(antichain, 1 << 12) == 1 << 12);
  CHECK_FALSE(downset_lattice(antichain, (1 << 12) - 1));
  CHECK_FALSE(downset_lattice({.nodes = most_lattice_nodes + 1, .edges = {}}, 10));
}

TEST_CASE("an order of the nodes passes through one downset per size") {
  Random random(11);
  for (int round = 0; round < 50; ++round) {
    const Dag dag = random_dag(random, 70);
    const std::vector<int> order = depth_first_order(dag);
    const Lattice lattice = linear_lattice(dag, order);
    REQUIRE(lattice.size() == dag.nodes + 1);
    for (int i = 0; i < dag.nodes; ++i) {
      const int node = order[static_cast<std::size_t>(i)];
      REQUIRE(lattice.steps_from(i).size() == 1);
      CHECK(lattice.steps_from(i)[0] == LatticeStep{node, i + 1});
      CHECK(lattice.difference(i, i + 1) == std::vector<int>{node});
      for (const Edge& edge : dag.edges) {
        if (edge.to == node) CHECK(lattice.contains(i, edge.from));
      }
    }
    CHECK(lattice.steps_from(dag.nodes).empty());
  }
}

TEST_CASE("published graphs have the published numbers of downsets") {
  const std::string file = shared_folder() + "/data/reference/downset_counts.json";
  if (!std::filesystem::exists(file)) SKIP("no published data at " + file);
  const Json counts = Json::read(file)["counts"];
  for (const std::string model :
       {"alexnet", "vgg16", "resnet18", "resnet50", "resnext50", "resnet101", "inception_v3"}) {
    INFO(model);
    CHECK(count_downsets(published_graph(model), 1'000'000) == counts[model].integer());
  }
}
