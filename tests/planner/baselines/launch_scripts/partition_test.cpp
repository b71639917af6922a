// Vectors from DeepSpeed's tests/unit/runtime/utils/test_partition.py, and cuts users of
// Megatron-LM asked about.

#include "planner/baselines/launch_scripts/partition.hpp"

#include <algorithm>
#include <stop_token>

#include "profiles/error.hpp"
#include "profiles/infinite.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

using Bounds = std::vector<int>;

TEST_CASE("uniform partitions give the remainder to the first parts", "[partition]") {
  CHECK(partition_uniform(10, 4) == Bounds{0, 3, 6, 8, 10});
  CHECK(partition_uniform(8, 4) == Bounds{0, 2, 4, 6, 8});
  CHECK(partition_uniform(2, 4) == Bounds{0, 1, 2, 2, 2});
  CHECK(partition_uniform(0, 2) == Bounds{0, 0, 0});
}

TEST_CASE("balanced partitions are DeepSpeed's", "[partition]") {
  CHECK(partition_balanced({0, 1, 2, 3, 3, 3}, 4) == Bounds{0, 3, 4, 5, 6});
  CHECK(partition_balanced({0, 1.1, 1.9, 3, 3, 3}, 4) == Bounds{0, 3, 4, 5, 6});
  CHECK(partition_balanced({1, 1}, 4) == Bounds{0, 1, 2, 2, 2});
}

TEST_CASE("of equally balanced partitions the last found is taken, and none leaves a stage empty",
          "[partition]") {
  CHECK(partition_balanced({1, 1, 1, 1, 1}, 4) == Bounds{0, 2, 3, 4, 5});
  CHECK(partition_balanced({1, 1, 1, 1, 1, 1, 1}, 3) == Bounds{0, 3, 5, 7});
  CHECK(partition_balanced({1, 1, 1, 1, 1, 1, 1}, 5) == Bounds{0, 2, 4, 5, 6, 7});
}

namespace {

// DeepSpeed's dynamic program as it stands there, over every place where the last part may begin.
Bounds balanced_as_written(const std::vector<double>& weights, int parts) {
  struct State {
    double heaviest = infinite, lightest = infinite, difference = infinite;
    int before = 0;
  };
  const int items = static_cast<int>(weights.size());
  std::vector<double> sums{0};
  for (const double weight : weights) sums.push_back(sums.back() + weight);
  const auto sum = [&](int prefix) { return sums[static_cast<std::size_t>(prefix)]; };
  std::vector<std::vector<State>> states(weights.size() + 1,
                                         std::vector<State>(static_cast<std::size_t>(parts) + 1));
  const auto at = [&](int prefix, int count) -> State& {
    return states[static_cast<std::size_t>(prefix)][static_cast<std::size_t>(count)];
  };
  at(0, 0).heaviest = at(0, 0).difference = 0;
  for (int prefix = 1; prefix <= items; ++prefix) {
    for (int count = 1; count <= std::min(prefix, parts); ++count) {
      State& state = at(prefix, count);
      for (int before = 0; before < prefix; ++before) {
        const State& rest = at(before, count - 1);
        const double weight = sum(prefix) - sum(before);
        const double heaviest = std::max(rest.heaviest, weight);
        const double lightest = std::min(rest.lightest, weight);
        if (state.difference < heaviest - lightest) continue;
        state = {heaviest, lightest, heaviest - lightest, before};
      }
    }
  }
  Bounds bounds{items};
  for (int count = parts; count > 0; --count) bounds.push_back(at(bounds.back(), count).before);
  std::reverse(bounds.begin(), bounds.end());
  return bounds;
}

// Items of a few weights, of any, with fractions, or most without weight; sometimes one or two that
// weigh as much as many others.
std::vector<double> random_weights(Random& random, int items) {
  const int kind = random.between(0, 3);
  std::vector<double> weights(static_cast<std::size_t>(items));
  for (double& weight : weights) {
    if (kind == 0) weight = random.between(0, 3);
    if (kind == 1) weight = random.between(0, 1'000'000);
    if (kind == 2) weight = random.between(1, 1000) / 7.0;
    if (kind == 3) weight = random.between(0, 9) == 0 ? 1 : 0;
  }
  if (random.between(0, 3) == 0) weights.front() *= 50;
  if (random.between(0, 3) == 0) weights.back() *= 50;
  return weights;
}

}  // namespace

TEST_CASE("a balanced partition is that of the dynamic program over every place",
          "[partition][seconds]") {
  Random random(11);
  for (int round = 0; round < 2000; ++round) {
    const int items = random.between(2, 60);
    const int parts = random.between(1, items - 1);
    const std::vector<double> weights = random_weights(random, items);
    REQUIRE(partition_balanced(weights, parts) == balanced_as_written(weights, parts));
  }
}

TEST_CASE("ten thousand layers are balanced at once, and none if a stop is requested",
          "[partition]") {
  const std::vector<double> alike(10'000, 12.0);
  const Bounds bounds = partition_balanced(alike, 100);
  for (std::size_t part = 0; part < 100; ++part) CHECK(bounds[part + 1] - bounds[part] == 100);
  std::stop_source stop;
  stop.request_stop();
  CHECK(partition_balanced(alike, 100, stop.get_token()).empty());
}

TEST_CASE("a launch script that is stopped while it cuts has no plan", "[partition]") {
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(9, layer_cost(1ms, 2ms))),
                               cluster_of({{4, {}}}), 8, {1});
  std::stop_source stop;
  stop.request_stop();
  const SearchResult result = search_deepspeed_parameters(problem, {.stop = stop.get_token()});
  CHECK(result.interrupted);
  CHECK(result.plans.empty());
  CHECK_FALSE(result.infeasible);
}

TEST_CASE("every partition holds every item once", "[partition]") {
  Random random(7);
  for (int round = 0; round < 500; ++round) {
    const int items = random.between(1, 30);
    const int parts = random.between(1, 10);
    std::vector<double> weights(static_cast<std::size_t>(items));
    for (double& weight : weights) weight = random.between(0, 9);
    for (const Bounds& bounds :
         {partition_uniform(items, parts), partition_balanced(weights, parts),
          partition_rest_last(items, parts)}) {
      REQUIRE(bounds.size() == static_cast<std::size_t>(parts) + 1);
      CHECK(bounds.front() == 0);
      CHECK(bounds.back() == items);
      CHECK(std::is_sorted(bounds.begin(), bounds.end()));
    }
  }
}

TEST_CASE("Galvatron leaves the rest to the last stage", "[partition]") {
  const auto last = [](int layers, int stages) {
    const Bounds bounds = partition_rest_last(layers, stages);
    return bounds[bounds.size() - 1] - bounds[bounds.size() - 2];
  };
  CHECK(last(28, 8) == 7);  // four would do
  CHECK(last(30, 8) == 9);
  CHECK(last(36, 16) == 6);
  CHECK(last(30, 16) == 15);
}

TEST_CASE("Megatron-LM shares layers out evenly or not at all", "[partition]") {
  CHECK(megatron_layers(32, 4, {}) == std::vector{8, 8, 8, 8});
  CHECK_FALSE(megatron_layers(30, 4, {}));
  CHECK(megatron_layers(30, 4, {.account_for_embedding = true, .account_for_loss = true}) ==
        std::vector{7, 8, 8, 7});
  CHECK(megatron_layers(31, 4, {.account_for_embedding = true}) == std::vector{7, 8, 8, 8});
  CHECK(megatron_layers(30, 4, {.first = 6, .last = 8}) == std::vector{6, 8, 8, 8});
  CHECK_FALSE(megatron_layers(30, 4, {.first = 31}));
  CHECK(megatron_layers(8, 2, {.first = 3, .last = 5}) == std::vector{3, 5});
  CHECK_FALSE(megatron_layers(8, 2, {.first = 3, .last = 4}));
}

TEST_CASE("launch scripts cut by their rule, whatever the layers cost", "[partition]") {
  std::vector<LayerCost> costs;
  for (int layer = 0; layer < 10; ++layer) costs.push_back(layer_cost((layer + 1) * 1ms, 2ms));
  Problem problem = problem_of(profile_of(costs), cluster_of({{4, {}}}), 8, {1});
  problem.straight = true;
  for (int layer = 0; layer < 10; ++layer) {
    problem.profile.model.layers[static_cast<std::size_t>(layer)].parameters = layer < 5 ? 2 : 6;
  }
  const auto cuts_of = [&](std::string_view name, const std::string& argument = {}) {
    SearchControl control;
    control.argument = argument;
    const SearchResult result = find_strategy(name).search(problem, control);
    Bounds cuts{0};
    for (const Stage& stage : result.plans.at(0).plan.stages) cuts.push_back(stage.layers.end);
    return cuts;
  };
  CHECK(cuts_of("deepspeed-uniform") == Bounds{0, 3, 6, 8, 10});
  CHECK(cuts_of("galvatron") == Bounds{0, 2, 4, 6, 10});
  CHECK(cuts_of("deepspeed-parameters") == partition_balanced({2, 2, 2, 2, 2, 6, 6, 6, 6, 6}, 4));
  CHECK(cuts_of("deepspeed-type", "layer[0-3]$") ==
        partition_balanced({1, 1, 1, 1, 0, 0, 0, 0, 0, 0}, 4));
  CHECK_THROWS_WITH(cuts_of("deepspeed-type", "("),
                    ContainsSubstring("is not a regular expression"));
  CHECK_THROWS_WITH(cuts_of("deepspeed-type", "lstm"),
                    ContainsSubstring("no layer's kind or name"));
  // A TiedLayerSpec is counted where it is used again.
  problem.profile.model.ties = {{.owner = 0, .user = 9, .parameters = 30}};
  CHECK(cuts_of("deepspeed-parameters") == partition_balanced({2, 2, 2, 2, 2, 6, 6, 6, 6, 36}, 4));
  CHECK(cuts_of("deepspeed-parameters") != partition_balanced({2, 2, 2, 2, 2, 6, 6, 6, 6, 6}, 4));
  // Embedding and head are none of Galvatron's layers: 8 on 4 are 2 each.
  problem.profile.model.layers.front().kind = LayerKind::embedding;
  problem.profile.model.layers.back().kind = LayerKind::head;
  CHECK(cuts_of("galvatron") == Bounds{0, 3, 5, 7, 10});
}

TEST_CASE("launch scripts never cost less than the exact search", "[partition][seconds]") {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    Problem problem = random_problem(seed, {});
    problem.min_layers_per_stage = 1;
    const SearchResult exact = search_exact(problem, {});
    if (exact.plans.empty()) continue;
    for (const std::string_view name : {"deepspeed-uniform", "megatron", "galvatron"}) {
      const SearchResult theirs = find_strategy(name).search(problem, {});
      if (theirs.plans.empty() || !theirs.plans.front().prediction) continue;
      const Prediction& prediction = *theirs.plans.front().prediction;
      if (!prediction.fits) continue;
      INFO(name);
      CHECK(exact.plans.front().prediction->step <= prediction.step);
    }
  }
}

TEST_CASE("Megatron-LM's ends take as many layers as leave equal stages between", "[partition]") {
  const std::vector<LayerCost> costs(42, layer_cost(1ms, 2ms));
  Problem problem = problem_of(profile_of(costs), cluster_of({{16, {}}}), 8, {1});
  problem.straight = true;
  // Fourteen stages of two layers leave 14 to the ends, which are five at most otherwise.
  const SearchResult result = search_megatron(problem, {});
  REQUIRE(result.plans.size() == 1);
  const std::vector<Stage>& stages = result.plans.front().plan.stages;
  REQUIRE(stages.size() == 16);
  for (std::size_t s = 2; s + 1 < stages.size(); ++s) {
    CHECK(stages[s].layers.size() == stages[1].layers.size());
  }
}

TEST_CASE("a planner that cannot cut a model into so many stages says into how many it can",
          "[partition]") {
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(9, layer_cost(1ms, 2ms))),
                               cluster_of({{6, {}}}), 8, {1});
  problem.straight = true;
  const SearchResult result = find_strategy("galvatron").search(problem, {});
  REQUIRE(result.infeasible);
  CHECK(result.infeasible->reason ==
        "galvatron cannot cut this model into 6 stages, as --straight asks for on 6 devices; it "
        "can into 4 or 8");
  CHECK(result.infeasible->remedies ==
        std::vector<std::string>{"--devices 4 (now 6)", "without --straight"});
}
