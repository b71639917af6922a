// What must not make a plan slower, and what must not matter at all.

#include <numeric>

#include "planner/space/orders.hpp"
#include "tests/planner/compared.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Duration step_of(const Problem& problem) {
  const SearchResult result = search_exact(problem, {});
  return result.plans.empty() ? Duration::max() : result.plans.front().prediction->step;
}

/// The layer as two with half the times and bytes each; the first hands on nothing, so that a stage
/// with both keeps what it kept.
Problem with_halved_layer(Problem problem, int halved) {
  Model& model = problem.profile.model;
  const auto place = static_cast<std::ptrdiff_t>(halved);
  model.layers.insert(model.layers.begin() + place, model.layers[static_cast<std::size_t>(halved)]);
  const auto renumber = [&](int layer) { return layer > halved ? layer + 1 : layer; };
  for (Edge& edge : model.edges) {
    edge.to = renumber(edge.to);
    edge.from = edge.from >= halved ? edge.from + 1 : edge.from;
  }
  model.edges.push_back({halved, halved + 1});
  for (Tie& tie : model.ties) {
    tie.owner = renumber(tie.owner);
    tie.user = renumber(tie.user);
  }
  for (ProfileEntry& entry : problem.profile.entries) {
    LayerCost& first = entry.layers[static_cast<std::size_t>(halved)];
    LayerCost second = first;
    const auto halve = [&](auto LayerCost::*figure) {
      first.*figure = first.*figure / 2;
      second.*figure = second.*figure - first.*figure;
    };
    for (auto time : {&LayerCost::forward, &LayerCost::backward_input, &LayerCost::backward_weight,
                      &LayerCost::update}) {
      halve(time);
    }
    for (auto bytes : {&LayerCost::parameters, &LayerCost::gradients, &LayerCost::optimizer,
                       &LayerCost::saved}) {
      halve(bytes);
    }
    first.output = first.output_freed = 0;
    entry.layers.insert(entry.layers.begin() + place + 1, second);
  }
  return problem;
}

/// Any topological order.
std::vector<int> random_order(const Model& model, Random& random) {
  std::vector<int> order;
  std::vector<bool> placed(model.layers.size());
  while (order.size() < model.layers.size()) {
    std::vector<int> ready;
    for (int layer = 0; layer < static_cast<int>(model.layers.size()); ++layer) {
      const bool waits = std::any_of(model.edges.begin(), model.edges.end(), [&](const Edge& edge) {
        return edge.to == layer && !placed[static_cast<std::size_t>(edge.from)];
      });
      if (!waits && !placed[static_cast<std::size_t>(layer)]) ready.push_back(layer);
    }
    const int chosen = random.between(0, static_cast<int>(ready.size()) - 1);
    order.push_back(ready[static_cast<std::size_t>(chosen)]);
    placed[static_cast<std::size_t>(order.back())] = true;
  }
  return order;
}

}  // namespace

TEST_CASE("mixed devices: no slower by faster links, more memory or one more device",
          "[exact][seconds]") {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    INFO("seed " << seed);
    Problem problem = random_mixed(seed + 6000, {5, 3});
    problem.use_fewer_devices = true;
    const Duration before = step_of(problem);
    REQUIRE(step_of(with_faster_links(problem)) <= before);
    REQUIRE(step_of(with_twice_the_memory(problem)) <= before);
    if (problem.cluster.levels.size() > 1) continue;
    Problem larger = problem;
    larger.cluster.levels.front().count += 1;
    larger.cluster.devices.push_back(static_cast<int>(seed % 2));
    REQUIRE(step_of(larger) <= before);
  }
}

TEST_CASE("a layer as two halves never makes a plan slower", "[exact][seconds]") {
  int faster = 0;
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    INFO("seed " << seed);
    const Problem problem = random_problem(seed + 9000, {5, 3});
    const int layers = static_cast<int>(problem.profile.model.layers.size());
    const Duration before = step_of(problem);
    const Duration after = step_of(with_halved_layer(problem, static_cast<int>(seed) % layers));
    REQUIRE(after <= before);
    faster += after < before ? 1 : 0;
  }
  CHECK(faster > 5);
}

TEST_CASE("the order of a graph's layers does not matter to planners that cut the graph",
          "[compatibility]") {
  // Launch scripts and Alpa cut the file's order, whatever the graph; DAPPLE and PipeDream on
  // nested networks a topological order of its states.
  const std::string name = GENERATE("pipedream-released", "pipedream-released-no-activations",
                                    "pipedream-released-fewer-machines", "pipedream-paper",
                                    "pipedream-2bw", "dnn-partitioning", "piper");
  int compared = 0, moved = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    INFO(name << ", seed " << seed);
    Random random(seed);
    Problem problem = random_branching(seed + 400, {8, 4});
    problem.min_layers_per_stage = 1;
    problem.cluster.levels = {
        {static_cast<int>(problem.cluster.devices.size()), problem.cluster.levels.back().link}};
    const std::vector<int> order = random_order(problem.profile.model, random);
    moved += std::is_sorted(order.begin(), order.end()) ? 0 : 1;
    const Problem other = in_order(problem, order);
    const Strategy& strategy = find_strategy(name);
    std::optional<SearchResult> one, two;
    try {
      one = strategy.search(problem, {});
    } catch (const Error&) {
      CHECK_THROWS_AS(strategy.search(other, {}), Error);
      continue;
    }
    two = strategy.search(other, {});
    REQUIRE(one->plans.size() == two->plans.size());
    if (one->plans.empty()) continue;
    REQUIRE(two->plans.front().objective->value ==
            Approx(one->plans.front().objective->value).epsilon(1e-9));
    ++compared;
  }
  CHECK(compared > 15);
  CHECK(moved > 10);
}
