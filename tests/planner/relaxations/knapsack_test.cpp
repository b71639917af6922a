#include "planner/relaxations/knapsack.hpp"

#include <functional>

#include "profiles/infinite.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

using Items = std::vector<std::vector<BlockItem>>;

/// One device after the other, every way; without the cost of one of them, which has so many.
double least_by_all(const Items& items, int blocks, int fixed = -1, int fixed_blocks = 0) {
  double least = infinite;
  const std::function<void(std::size_t, int, double)> share = [&](std::size_t d, int left,
                                                                  double sum) {
    if (d == items.size()) {
      if (left == 0) least = std::min(least, sum);
    } else if (static_cast<int>(d) == fixed) {
      share(d + 1, left - fixed_blocks, sum);
    } else {
      for (const BlockItem& item : items[d]) share(d + 1, left - item.blocks, sum + item.cost);
    }
  };
  share(0, blocks, 0);
  return least;
}

}  // namespace

TEST_CASE("blocks are shared out at the least cost", "[block_cover]") {
  BlockCover cover;  // keeps nothing of the question before
  int none = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    Items items(static_cast<std::size_t>(random.between(1, 4)));
    for (auto& of_device : items) {
      for (int i = random.between(seed % 8 == 0 ? 0 : 1, 5); i > 0; --i)
        of_device.push_back({random.between(0, 4), static_cast<double>(random.between(0, 20))});
    }
    const int blocks = random.between(0, 8);
    const double least = least_by_all(items, blocks);
    REQUIRE(cover.solve(items, blocks) == (least < infinite));
    if (least == infinite) {
      ++none;
      continue;
    }
    CHECK(cover.value() == least);
    int all = 0;
    double sum = 0;
    for (std::size_t d = 0; d < items.size(); ++d) {
      const BlockItem& item = items[d][static_cast<std::size_t>(cover.chosen()[d])];
      all += item.blocks;
      sum += item.cost;
      for (const BlockItem& other : items[d]) {
        const auto device = static_cast<int>(d);
        CHECK(cover.others(device, other.blocks) ==
              least_by_all(items, blocks, device, other.blocks));
      }
    }
    CHECK(all == blocks);
    CHECK(sum == least);
  }
  CHECK(none > 20);
  CHECK(none < 300);
}
