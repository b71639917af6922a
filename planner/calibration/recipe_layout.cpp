// Which blocks a recipe's stages have.

#include <algorithm>

#include "planner/calibration/recipe.hpp"

namespace stagecraft {

bool count_ends_as_blocks(Recipe& recipe) {
  const int chunks = recipe.pipeline * recipe.virtual_stages;
  const bool said = recipe.first_stage_blocks > 0 || recipe.last_stage_blocks > 0;
  if (recipe.pipeline == 1 || said || recipe.blocks % chunks == 0) return false;
  if ((recipe.blocks + 2) % chunks != 0) return false;
  recipe.first_stage_blocks = recipe.last_stage_blocks = (recipe.blocks + 2) / recipe.pipeline - 1;
  return recipe.first_stage_blocks > 0;
}

std::vector<int> stage_blocks(const Recipe& recipe) {
  if (!recipe.layout.empty()) return recipe.layout;
  std::vector<int> blocks(static_cast<std::size_t>(recipe.pipeline), 0);
  int left = recipe.blocks, stages = recipe.pipeline;
  if (recipe.first_stage_blocks > 0) {
    blocks.front() = recipe.first_stage_blocks;
    left -= blocks.front();
    --stages;
  }
  if (recipe.last_stage_blocks > 0 && recipe.pipeline > 1) {
    blocks.back() = recipe.last_stage_blocks;
    left -= blocks.back();
    --stages;
  }
  for (int& each : blocks) {
    if (each > 0 || stages == 0) continue;
    each = (left + stages - 1) / stages;
    left -= each;
    --stages;
  }
  return blocks;
}

namespace {

/// How many blocks each stage has where none takes longer than `limit` and the first take as many
/// as they can; empty where that is too little for all, or leaves a stage fewer than `least`.
std::vector<int> layout_within(double limit, const std::vector<double>& sums, int stages,
                               int least) {
  const int blocks = static_cast<int>(sums.size()) - 1;
  std::vector<int> layout;
  int first = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const int last = blocks - (stages - stage - 1) * least;  // what the stages behind it need
    int end = first;
    while (end < last && sums[end + 1] - sums[first] <= limit) ++end;
    if (end - first < least) return {};
    layout.push_back(end - first);
    first = end;
  }
  return first == blocks ? layout : std::vector<int>();
}

}  // namespace

bool balance_stages(Recipe& recipe, const KernelConstants& constants) {
  const int chunks = recipe.pipeline * recipe.virtual_stages;
  const bool said =
      recipe.first_stage_blocks > 0 || recipe.last_stage_blocks > 0 || !recipe.layout.empty();
  if (recipe.pipeline == 1 || said || recipe.blocks % chunks == 0) return false;
  const std::vector<double> sums = block_sums(recipe, constants);
  // The first and the last stage may have a virtual one with nothing but embedding or head.
  const int least = std::max(1, recipe.virtual_stages - 1);
  // The slowest stage takes the seconds of some run of blocks.
  std::vector<double> limits;
  for (std::size_t first = 0; first < sums.size(); ++first) {
    for (std::size_t end = first + 1; end < sums.size(); ++end)
      limits.push_back(sums[end] - sums[first]);
  }
  std::ranges::sort(limits);
  const auto fits = [&](double limit) {
    return !layout_within(limit, sums, recipe.pipeline, least).empty();
  };
  const auto quickest =
      std::ranges::partition_point(limits, [&](double limit) { return !fits(limit); });
  if (quickest == limits.end()) return false;
  recipe.layout = layout_within(*quickest, sums, recipe.pipeline, least);
  return true;
}

}  // namespace stagecraft
