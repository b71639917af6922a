#include "planner/relaxations/knapsack.hpp"

#include <algorithm>

#include "profiles/index.hpp"
#include "profiles/infinite.hpp"

namespace stagecraft {

void BlockCover::list_counts(const std::vector<BlockItem>& items, std::vector<Count>& counts) {
  cheapest_.assign(index(blocks_ + 1), -1);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].blocks > blocks_) continue;
    int& cheapest = cheapest_[index(items[i].blocks)];
    if (cheapest < 0 || items[i].cost < items[index(cheapest)].cost) cheapest = static_cast<int>(i);
  }
  counts.clear();
  for (int blocks = 0; blocks <= blocks_; ++blocks) {
    const int item = cheapest_[index(blocks)];
    if (item >= 0) counts.push_back({blocks, item, items[index(item)].cost});
  }
}

/// Extends the sums by one more device, for `least` to `most` blocks.
void BlockCover::extend(const Sums& from, const std::vector<Count>& counts, int least, int most,
                        Sums& to) {
  to.least = least;
  to.values.assign(index(std::max(most - least + 1, 0)), infinite);
  to.last.assign(to.values.size(), 0);
  for (int c = 0; c < static_cast<int>(counts.size()); ++c) {
    const Count& count = counts[index(c)];
    const int first = std::max(from.least, least - count.blocks);
    const int end =
        std::min(from.least + static_cast<int>(from.values.size()), most + 1 - count.blocks);
    for (int blocks = first; blocks < end; ++blocks) {
      const double sum = from.values[index(blocks - from.least)] + count.cost;
      const std::size_t place = index(blocks + count.blocks - least);
      if (sum < to.values[place]) {
        to.values[place] = sum;
        to.last[place] = c;
      }
    }
  }
}

bool BlockCover::solve(const std::vector<std::vector<BlockItem>>& items, int blocks) {
  const auto devices = static_cast<int>(items.size());
  blocks_ = blocks;
  counts_.resize(items.size());
  before_.resize(items.size() + 1);
  after_.resize(items.size() + 1);
  // Numbers of blocks that the devices after, and before, each one can have.
  std::vector<int> fewest_after(items.size() + 1), most_after(items.size() + 1);
  for (int d = devices; d-- > 0;) {
    list_counts(items[index(d)], counts_[index(d)]);
    if (counts_[index(d)].empty()) return false;
    fewest_after[index(d)] = fewest_after[index(d + 1)] + counts_[index(d)].front().blocks;
    most_after[index(d)] = most_after[index(d + 1)] + counts_[index(d)].back().blocks;
  }
  if (blocks < fewest_after[0] || blocks > most_after[0]) return false;
  before_[0] = {.least = 0, .values = {0.0}, .last = {0}};
  after_[index(devices)] = before_[0];
  for (int d = 0; d < devices; ++d) {
    const int fewest = fewest_after[0] - fewest_after[index(d + 1)];
    const int most = most_after[0] - most_after[index(d + 1)];
    extend(before_[index(d)], counts_[index(d)],
           std::max(fewest, blocks - most_after[index(d + 1)]),
           std::min(most, blocks - fewest_after[index(d + 1)]), before_[index(d + 1)]);
  }
  value_ = before_[index(devices)].values.front();  // the sum for all blocks
  if (value_ == infinite) return false;
  others_.assign(items.size() * index(blocks + 1), -1);
  for (int d = devices; d-- > 0;) {
    const int fewest = fewest_after[0] - fewest_after[index(d)];
    const int most = most_after[0] - most_after[index(d)];
    extend(after_[index(d + 1)], counts_[index(d)], std::max(fewest_after[index(d)], blocks - most),
           std::min(most_after[index(d)], blocks - fewest), after_[index(d)]);
  }
  chosen_.resize(items.size());
  for (int d = devices; d-- > 0;) {
    const Sums& sums = before_[index(d + 1)];
    const Count& count = counts_[index(d)][index(sums.last[index(blocks - sums.least)])];
    chosen_[index(d)] = count.item;
    blocks -= count.blocks;
  }
  return true;
}

double BlockCover::others(int device, int blocks) {
  if (blocks > blocks_) return infinite;
  double& known = others_[index(device) * index(blocks_ + 1) + index(blocks)];
  if (known >= 0) return known;
  const Sums &before = before_[index(device)], &after = after_[index(device + 1)];
  const int rest = blocks_ - blocks - before.least - after.least;  // place in one table plus place
                                                                   // in the other
  const int first = std::max(rest + 1 - static_cast<int>(after.values.size()), 0);
  const int end = std::min(rest + 1, static_cast<int>(before.values.size()));
  known = infinite;
  for (int i = first; i < end; ++i)
    known = std::min(known, before.values[index(i)] + after.values[index(rest - i)]);
  return known;
}

}  // namespace stagecraft
