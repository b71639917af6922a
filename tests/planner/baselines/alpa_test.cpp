#include <functional>

#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Every division of the layers over Alpa's submeshes of hosts with `width` devices.
double least_latency(const std::vector<double>& times, int devices, int width, int microbatches) {
  double best = 1e300;
  const auto is_submesh = [&](int n) {
    return n <= width ? (n & (n - 1)) == 0 || n == width : n % width == 0;
  };
  const std::function<void(std::size_t, int, double, double)> go = [&](std::size_t layer, int left,
                                                                       double sum, double slowest) {
    if (layer == times.size()) {
      if (left == 0) best = std::min(best, sum + (microbatches - 1) * slowest);
      return;
    }
    double work = 0;
    for (std::size_t end = layer; end < times.size(); ++end) {
      work += times[end];
      for (int n = 1; n <= left; ++n) {
        if (!is_submesh(n)) continue;
        go(end + 1, left - n, sum + work / n, std::max(slowest, work / n));
      }
    }
  };
  go(0, devices, 0, 0);
  return best;
}

}  // namespace

TEST_CASE("Alpa's latency is the least of all divisions over its submeshes", "[alpa]") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    std::vector<LayerCost> costs;
    std::vector<double> times;
    for (int layer = random.between(1, 6); layer > 0; --layer) {
      costs.push_back(layer_cost(random.between(1, 50) * 1ms, random.between(1, 50) * 1ms));
      times.push_back(seconds(costs.back().forward + costs.back().backward()));
    }
    const int hosts = random.between(1, 3), width = random.between(1, 4);
    const int microbatches = random.between(1, 9);
    const Problem problem =
        problem_of(profile_of(costs), cluster_of({{hosts, {}}, {width, {}}}), microbatches, {1});
    const SearchResult result = search_alpa(problem, {});
    INFO("seed " << seed);
    const double least = least_latency(times, hosts * width, width, microbatches);
    if (result.plans.empty()) {
      CHECK(least == 1e300);
      continue;
    }
    CHECK_THAT(result.plans.front().objective->value, Catch::WithinRel(least, 1e-9));
    CHECK(result.proved_optimal);
  }
}

TEST_CASE("Alpa keeps activations for itself and each stage behind", "[alpa]") {
  std::vector<LayerCost> costs(4, layer_cost(10ms, 20ms));
  for (LayerCost& cost : costs) {
    cost.parameters = 100;
    cost.saved = 50;
  }
  const auto stages_within = [&](Bytes memory) {
    const Problem problem = problem_of(profile_of(costs), cluster_of({{2, {}}}, memory), 16, {1});
    const SearchResult result = search_alpa(problem, {});
    return result.plans.empty() ? 0 : static_cast<int>(result.plans.front().plan.stages.size());
  };
  // One stage on both devices: 400 and a share of 200; two stages of two layers: 200 and 2 x 100.
  CHECK(stages_within(400) == 2);
  CHECK(stages_within(399) == 0);
}
