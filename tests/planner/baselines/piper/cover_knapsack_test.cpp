#include "planner/baselines/piper/cover_knapsack.hpp"

#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

constexpr double infinite = 1e301;

double least_by_definition(const std::vector<CoverItem>& items, double needed) {
  double least = infinite;
  for (unsigned set = 0; set < 1U << items.size(); ++set) {
    double cost = 0;
    double weight = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if ((set >> i & 1U) == 0) continue;
      cost += items[i].cost;
      weight += items[i].weight;
    }
    if (weight >= needed) least = std::min(least, cost);
  }
  return least;
}

std::vector<CoverItem> random_items(Random& random) {
  std::vector<CoverItem> items(static_cast<std::size_t>(random.between(0, 8)));
  for (CoverItem& item : items) {
    item = {static_cast<double>(random.between(0, 6)), static_cast<double>(random.between(1, 6))};
  }
  return items;
}

}  // namespace

TEST_CASE("no choice of items covers what is needed for less") {
  Random random(21);
  for (int round = 0; round < 1500; ++round) {
    const std::vector<CoverItem> items = random_items(random);
    const double needed = random.between(-2, 25);
    const double least = least_by_definition(items, needed);
    const Cover cover = least_cover(items, needed);
    if (least == infinite) {
      REQUIRE(cover.cost > 1e300);
      continue;
    }
    REQUIRE(cover.cost == least);
    REQUIRE(cover.lower_bound == least);
    double weight = 0;
    double cost = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      weight += cover.taken[i] != 0 ? items[i].weight : 0;
      cost += cover.taken[i] != 0 ? items[i].cost : 0;
    }
    REQUIRE(cost == least);
    REQUIRE((needed <= 0 || weight >= needed));
    const Cover greedy = greedy_cover(items, needed);
    REQUIRE(greedy.lower_bound <= least + 1e-9);
    REQUIRE(greedy.cost >= least);
  }
}

TEST_CASE("equal items are one question of how many, and a hard cover ends with its bound") {
  const std::vector<CoverItem> equal(500, {1, 3});
  const Cover many = least_cover(equal, 1000);
  CHECK(many.cost == 334);
  CHECK(many.lower_bound == 334);
  std::vector<CoverItem> hard;
  for (int i = 0; i < 60; ++i) {
    const double weight = 1000 + (i * 37) % 61;
    hard.push_back({weight + 0.01 * (i % 7), weight});
  }
  const Cover stopped = least_cover(hard, 20'777.5, 50);
  CHECK(stopped.lower_bound < stopped.cost);
  CHECK(least_cover(hard, 20'777.5).cost <= stopped.cost);
}
