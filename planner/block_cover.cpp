#include "planner/block_cover.hpp"

#include <limits>

namespace stagecraft {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

struct Best {
  double value = infinite;
  const BlockChoice* choice = nullptr;
  int blocks = 0;  ///< of that choice
};

/// By number of blocks.
template <class Cost>
std::vector<Best> best_of_device(const BlockChoices& choices, int blocks, Cost cost) {
  std::vector<Best> best(index(blocks + 1));
  for (const BlockChoice* choice : choices) {
    const int count = choice->all_blocks();
    if (count > blocks) continue;
    const double value = cost(*choice);
    if (value < best[index(count)].value) best[index(count)] = {value, choice, count};
  }
  return best;
}

}  // namespace

std::optional<BlockCover> least_cover(
    const std::vector<BlockChoices>& choices, int blocks,
    const std::function<double(int device, const BlockChoice& choice)>& cost) {
  const auto devices = static_cast<int>(choices.size());
  // [devices so far][blocks so far]: with which choice of the last of them.
  std::vector<std::vector<Best>> table(index(devices + 1), std::vector<Best>(index(blocks + 1)));
  table[0][0].value = 0;
  for (int device = 0; device < devices; ++device) {
    const auto own = best_of_device(choices[index(device)], blocks, [&](const BlockChoice& choice) {
      return cost(device, choice);
    });
    for (int before = 0; before <= blocks; ++before) {
      const double value = table[index(device)][index(before)].value;
      if (value == infinite) continue;
      for (int count = 0; before + count <= blocks; ++count) {
        Best& best = table[index(device + 1)][index(before + count)];
        const double sum = value + own[index(count)].value;
        if (sum < best.value) best = {sum, own[index(count)].choice, count};
      }
    }
  }
  BlockCover cover{table[index(devices)][index(blocks)].value, {}};
  if (cover.value == infinite) return {};
  cover.choices.resize(index(devices));
  for (int device = devices; device-- > 0;) {
    const Best& best = table[index(device + 1)][index(blocks)];
    cover.choices[index(device)] = best.choice;
    blocks -= best.blocks;
  }
  return cover;
}

}  // namespace stagecraft
